"""docs/WEBHOOKS.md is true: its receivers run, and its examples are what the service sends."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from testbed.ports import free_port
from tests.conftest import MovableClock
from tests.documents.examples import written_examples
from tests.documents.webhooks import PAGE as EVENTS
from tests.documents.webhooks import event_examples, written_page
from tests.services.webhooks.receivers import deliver, deliveries_of, happen, subscribe
from tests.support.money import a_client
from ussd_server.bootstrap import Services
from ussd_server.models.sending import PendingEvent

_PAGE = Path(__file__).parents[2] / "docs" / "WEBHOOKS.md"
_JAVASCRIPT_LIBRARY = "standardwebhooks@1.1.1"

Command = list[str | Path]


# The receivers


def code(language: str) -> str:
    """Return the documented receiver in a language."""
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", _PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return str(block)


def in_python(folder: Path) -> Command:
    (folder / "receiver.py").write_text(code("python"))
    return [sys.executable, folder / "receiver.py"]


def in_javascript(folder: Path) -> Command:
    """Node.js with the reference library of JavaScript, which comes from its usual registry."""
    subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, _JAVASCRIPT_LIBRARY],
        check=True,
    )
    (folder / "receiver.mjs").write_text(code("javascript"))
    return ["node", folder / "receiver.mjs"]


def wait_for(port: int, receiver: subprocess.Popen[str]) -> None:
    """Return when the receiver listens."""
    while receiver.poll() is None:
        with contextlib.suppress(ConnectionError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.02)
    raise AssertionError("the receiver ended")


@pytest.mark.parametrize("make", [in_python, pytest.param(in_javascript, marks=pytest.mark.needs_node)])
def test_the_documented_receiver_accepts_what_we_sign_once_and_nothing_else(
    services: Services, tmp_path: Path, make: Callable[[Path], Command]
) -> None:
    call, port = a_client(), free_port()
    webhook = subscribe(services, call, f"http://127.0.0.1:{port}/")
    environment = {"PATH": os.environ["PATH"], "PORT": str(port), "WEBHOOK_SECRET": webhook.secret}
    receiver = subprocess.Popen(make(tmp_path), env=environment, stdout=subprocess.PIPE, text=True)
    try:
        wait_for(port, receiver)
        services.webhooks.test(webhook.id, call)
        (event_id,) = happen(services, call)
        deliver(services)
        PendingEvent.insert(event_id=event_id).execute()
        deliver(services)
        other = subscribe(services, call, f"http://127.0.0.1:{port}/?signed=by-another-secret", "transaction.failed")
        forged = services.webhooks.test(other.id, call)
        deliver(services)
        assert [delivery.answer_status for delivery in deliveries_of(services, call, event_id)] == [204, 204]
        assert [delivery.answer_status for delivery in deliveries_of(services, call, forged.id)] == [401]
    finally:
        receiver.terminate()
        printed, _ = receiver.communicate()
    lines = [line.split(" ", 1) for line in printed.splitlines()]
    assert [line[0] for line in lines] == ["webhook.test", "ussd.session.ended"]
    assert "number" in lines[1][1]


# The events


def test_the_page_of_events_is_what_the_code_declares() -> None:
    is_written = EVENTS.read_text(encoding="utf-8") == written_page()
    assert is_written, f"run scripts/document: {EVENTS}"


@pytest.mark.nightly
def test_the_api_document_shows_every_type_of_event_as_it_is_sent(services: Services, clock: MovableClock) -> None:
    assert written_examples()["webhooks"] == event_examples(services, clock), "run scripts/document"
