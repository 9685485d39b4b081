"""One console and one Chromium for all browser tests."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from werkzeug.serving import WSGIRequestHandler, make_server

from tests.console.browser.visitor import LOOKS, Chromium, Console, Paths, ShareOfPages, Visitor
from tests.services.webhooks.receivers import Receiver, answering, deliver, happen, subscribe
from tests.support.example_client import OPERATOR, PASSWORD, ExampleClient
from tests.support.sandbox import sandbox_settings
from tests.support.shop import Shop
from ussd_server.app import create_app
from ussd_server.bootstrap import build_services
from ussd_server.database.unit_of_work import close_connections
from ussd_server.services.clients.messages import InvitePerson
from ussd_server.services.menus.messages import AssignCode
from ussd_server.services.operators.messages import CreateOperator, Propose
from ussd_server.services.ussd.messages import CreateChannel

# A name as a hostile person would choose it: markup, text from right to left, and a sign of four bytes.
HOSTILE_NAME = '"><script>alert(1)</script> שלום עולם 🦒 & Sons, Wholesale and Retail Traders'


class _QuietHandler(WSGIRequestHandler):
    """Logs nothing."""

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002 - werkzeug's name
        """Drop a line."""


@pytest.fixture(scope="package")
def console(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path, redis_url: str) -> Iterator[Console]:
    """A console on a database of its own, with a client whose name is hostile."""
    folder = tmp_path_factory.mktemp("console")
    shutil.copy(migrated_sqlite, folder / "console.db")
    services = build_services(sandbox_settings(folder, f"sqlite:///{folder}/console.db", redis_url))
    server = make_server("127.0.0.1", 0, create_app(services), threaded=True, request_handler=_QuietHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    client = ExampleClient(services, HOSTILE_NAME)
    client.name = "hostile"
    Shop(services, client_id=client.id)
    yield Console(f"http://127.0.0.1:{server.server_port}", services, client)
    server.shutdown()
    thread.join()
    server.server_close()
    services.close()
    close_connections()


@pytest.fixture(scope="package")
def chromium() -> Iterator[Chromium]:
    """Debian's Chromium."""
    with sync_playwright() as playwright:
        browser = Chromium(playwright)
        yield browser
        browser.close()


@pytest.fixture(scope="package")
def visitor(console: Console, chromium: Chromium) -> Visitor:
    """The owner of the client, who signed in."""
    return Visitor(console, chromium)


@pytest.fixture
def share_of_pages(request: pytest.FixtureRequest) -> ShareOfPages:
    """Gives the pages that are looked at in a scheme: every second one, the others in the other scheme.

    With `--everything` each page is looked at in both.
    """
    if request.config.getoption("--everything"):
        return lambda _, paths: paths
    schemes = [scheme for scheme, _ in LOOKS]
    return lambda scheme, paths: paths[schemes.index(scheme) :: len(schemes)]


@pytest.fixture(scope="package")
def delivered(console: Console) -> Paths:
    """The pages of a webhook and of an event that it answered with hostile text."""
    call = console.client.at_console()
    with Receiver(answering(500), body=HOSTILE_NAME.encode()) as receiver:
        webhook = subscribe(console.services, call, f"{receiver.url}/{'long' * 60}?name=<b>")
        (event_id,) = happen(console.services, call)
        deliver(console.services)
    return f"/webhooks/{webhook.id}", f"/events/{event_id}"


@pytest.fixture(scope="package")
def people(console: Console) -> Paths:
    """The pages of an owner, of a person who was invited, and of the invitation."""
    call = console.client.at_console()
    invited = console.services.people.invite(InvitePerson(f"{'long' * 15}@hostile.example", "viewer"), call)
    return f"/people/{call.caller.user_id}", f"/people/{invited.person.user_id}", f"/welcome/{invited.token}"


@pytest.fixture(scope="package")
def installed(console: Console) -> Paths:
    """The pages of a client, its lists and a channel, in an installation with a worker and a code."""
    console.services.runtime.heartbeat.beat()
    channels = console.services.channels
    channels.assign_code(AssignCode("*384*77#", console.client.id), OPERATOR)
    channel = channels.create(CreateChannel("json", console.client.id, HOSTILE_NAME, ("*384*77#",)), OPERATOR)
    client = f"/operator/clients/{console.client.id}"
    return (
        client,
        f"{client}/payouts",
        f"{client}/sessions",
        f"{client}/statement",
        f"/operator/channels/{channel.channel_id}",
    )


@pytest.fixture(scope="package")
def operator(console: Console, chromium: Chromium) -> Visitor:
    """An operator who signed in."""
    bob = replace(OPERATOR, caller=replace(OPERATOR.caller, operator="bob@ops.example"))
    reason = "The payer sent it to a wrong number: <b>Kololo</b> שלום"
    console.services.proposals.propose(
        Propose("transaction.refund", console.pay(), reason, {"amount_cents": 100_000}), bob
    )
    wanted = CreateOperator("ann@ops.example", PASSWORD)
    return Visitor(console, chromium, factor=console.services.operators.create(wanted, OPERATOR))
