"""Steps that call other servers, crash half way, or are delivered twice: each is done once and answered in time."""

from __future__ import annotations

import base64
import hmac
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.conftest import MovableClock
from tests.support.shop import CODE, PHONE, VOUCHER, Shop, shop_document
from ussd_server import clock as service_clock
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.database.unit_of_work import release_connection
from ussd_server.gateways.messages import GatewayRequest
from ussd_server.models.sending import Event
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.security.key_ring import Keyring
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.transactions.messages import ListTransactions
from ussd_server.services.ussd import sessions
from ussd_server.services.ussd.actions import payment_reference
from ussd_server.services.ussd.messages import BeginSession, EnterText, SessionView
from ussd_server.settings import Settings
from ussd_server.status import ServiceError


@pytest.fixture
def client_server() -> Iterator[HTTPServer]:
    """A client's own server."""
    with HTTPServer() as server:
        yield server


def asking(url: str, **fields: Any) -> dict[str, Any]:
    """A shop whose voucher is looked up at the client's own server."""
    node = {
        "type": "http",
        "method": "POST",
        "url": url,
        "body": {"voucher": "{{vars.code}}"},
        "map": {"balance": "value.shillings"},
        "goto": "show",
        "on_error": "bye",
        "on_timeout": "late",
    } | fields
    voucher = shop_document()["nodes"]["voucher"] | {"goto": "ask"}
    late = {"type": "end", "text": {"en": "Too slow"}}
    return shop_document(nodes={"voucher": voucher, "ask": node, "late": late, "used": shop_document()["nodes"]["bye"]})


def handing_over(url: str, protocol: str) -> dict[str, Any]:
    """A shop that hands the voucher over to the client's own server."""
    node = {"type": "handover", "url": url, "protocol": protocol, "on_error": "bye"}
    options = shop_document()["nodes"]["root"]["options"]
    options[3] = {"label": {"en": "Voucher"}, "goto": "driven"}
    root = shop_document()["nodes"]["root"] | {"options": options}
    document = shop_document(nodes={"root": root, "driven": node})
    del document["nodes"]["voucher"], document["nodes"]["used"], document["vars"]["code"]
    return document


def dial(shop: Shop, *entries: str) -> SessionView:
    """A new session after some entries."""
    session = shop.services.api_sessions.begin(BeginSession(PHONE, shop.code), shop.call)
    for entry in entries:
        session = shop.services.api_sessions.enter(EnterText(session.session_id, entry), shop.call)
    return session


def step_of(shop: Shop, text: str = "", session_id: str = "a", path: str = "") -> str:
    """What Africa's Talking is answered."""
    _, _, adapter, secret = (path or shop.channel.gateway_path).split("/")
    form = {"sessionId": session_id, "phoneNumber": PHONE, "serviceCode": shop.code, "text": text}
    request = GatewayRequest("POST", body=urlencode(form).encode())
    return shop.services.gateways.answer(adapter, secret, request, "r").body.decode()


def test_the_clients_server_is_asked_once_signed_and_named(services: Services, client_server: HTTPServer) -> None:
    asked: list[Request] = []

    def answer(request: Request) -> Response:
        asked.append(request)
        return Response(json.dumps({"value": {"shillings": 750}}), mimetype="application/json")

    client_server.expect_request("/voucher").respond_with_handler(answer)
    shop = Shop(services, asking(client_server.url_for("/voucher")))
    session = dial(shop, "4", VOUCHER)
    assert session.message == "Your balance is UGX 750"
    (request,) = asked
    assert request.json == {"voucher": VOUCHER}
    assert request.headers["Idempotency-Key"] == request.headers["webhook-id"] == f"{session.session_id}-ask-2"
    secret = services.menus.call_secrets(operator_context(shop.client_id))[0]
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.data
    signature = base64.b64encode(hmac.digest(secret, signed, "sha256")).decode()
    assert request.headers["webhook-signature"] == f"v1,{signature}"
    assert VOUCHER not in repr(UssdSession.get().__data__)


def test_a_header_may_have_letters_outside_ascii(services: Services, client_server: HTTPServer) -> None:
    reply = {"value": {"shillings": 750}}
    client_server.expect_request("/voucher").respond_with_json(reply)
    shop = Shop(services, asking(client_server.url_for("/voucher"), headers={"X-Shop": "Zoë's ŋ"}))
    assert dial(shop, "4", VOUCHER).message == "Your balance is UGX 750"
    (request, _) = client_server.log[0]
    assert request.headers["X-Shop"].encode("latin-1").decode() == "Zoë's ŋ"


def test_a_menus_payment_says_what_it_is_for(services: Services) -> None:
    about = {"description": "UGX {{vars.amount|ugx}} for ACME", "metadata": {"bill": "{{vars.amount}}"}}
    shop = Shop(services, shop_document(nodes={"pay": shop_document()["nodes"]["pay"] | about}))
    assert dial(shop, "1", "5000", "1").message == "Approve the prompt on your phone."
    (shown,) = services.transactions.list(ListTransactions(), shop.call).items
    assert (shown.description, shown.metadata) == ("UGX 5,000 for ACME", {"bill": "5000"})
    payload = Event.get(Event.type == "transaction.created").payload
    assert (payload["description"], payload["metadata"]) == (shown.description, shown.metadata)


def test_two_secret_entries_are_compared_and_neither_is_stored(services: Services) -> None:
    asked = {"type": "input", "secret": True, "validate": [{"rule": "length", "max": 20}]}
    differ = {"rule": "expr", "expr": "vars.code == vars.again", "error": {"en": "They differ"}}
    offered = {"label": {"en": "Keep"}, "goto": "used", "when": "vars.code == vars.again"}
    nodes = {
        "voucher": {**asked, "text": {"en": "Choose"}, "var": "code", "goto": "again"},
        "again": {**asked, "text": {"en": "Again"}, "var": "again", "validate": [differ], "goto": "keep"},
        "keep": {
            "type": "menu",
            "text": {"en": "Keep it?"},
            "options": [offered, {"label": {"en": "No"}, "goto": "bye"}],
        },
    }
    code = {"type": "text", "max_len": 20}
    shop = Shop(services, shop_document(nodes=nodes, vars={**shop_document()["vars"], "code": code, "again": code}))
    session = dial(shop, "4", VOUCHER)
    for entry, shown in (
        ("Kwezi-0000", "They differ\nAgain\n0 Back"),
        (VOUCHER, "Keep it?\n1. Keep\n2. No\n0 Back"),
        ("0", "Choose\n0 Back"),
        (VOUCHER, "Again\n0 Back"),
        (VOUCHER, "Keep it?\n1. Keep\n2. No\n0 Back"),
        ("1", "Your voucher was noted.\n1. Continue\n0 Back"),
    ):
        session = services.api_sessions.enter(EnterText(session.session_id, entry), shop.call)
        assert session.message == shown
        row = UssdSession.get()
        assert "Kwezi" not in repr(row.__data__)
    assert "kept" not in row.state


def test_an_answer_that_cannot_be_used_leads_where_the_menu_says(services: Services, client_server: HTTPServer) -> None:
    shop = Shop(services, asking(client_server.url_for("/voucher")))
    for reply in (
        Response("oops", 500),
        Response("not json"),
        Response("[" * 60_000),
        Response('{"value": {"shillings": "many"}}'),
        Response('{"value": {"shillings": 750}, "rate": NaN}'),
        Response(status=302, headers={"Location": "http://127.0.0.1/"}),
        Response("x" * 100_000),
    ):
        client_server.expect_ordered_request("/voucher").respond_with_response(reply)
        assert dial(shop, "4", "7391").message == "Goodbye"


def test_a_server_that_is_too_slow_leads_where_the_menu_says(services: Services, client_server: HTTPServer) -> None:
    held = threading.Event()

    def hang(_: Request) -> Response:
        held.wait(10)
        return Response("{}")

    client_server.expect_request("/voucher").respond_with_handler(hang)
    shop = Shop(services, asking(client_server.url_for("/voucher"), timeout_ms=200))
    try:
        assert dial(shop, "4", "7391").message == "Too slow"
    finally:
        held.set()


@pytest.mark.both_databases
def test_a_step_that_asks_the_outside_is_done_by_one_of_many(services: Services, client_server: HTTPServer) -> None:
    asked = []

    def answer(request: Request) -> Response:
        asked.append(request.headers["webhook-id"])
        return Response(json.dumps({"value": {"shillings": 750}}))

    client_server.expect_request("/voucher").respond_with_handler(answer)
    shop = Shop(services, asking(client_server.url_for("/voucher")))
    session = dial(shop, "4")

    def enter(_: int) -> SessionView:
        try:
            return services.api_sessions.enter(EnterText(session.session_id, "7391", 2), shop.call)
        finally:
            release_connection()

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(enter, range(12)))
    assert len(asked) == 1
    assert answers == [answers[0]] * 12
    assert answers[0].message == "Your balance is UGX 750"


def test_a_neutral_server_drives_from_here(services: Services, client_server: HTTPServer) -> None:
    received = []

    def drive(request: Request) -> Response:
        received.append(request.json)
        action = "end" if request.json["entry"] == "9" else "continue"
        return Response(json.dumps({"action": action, "message": f"You said {request.json['text']}"}))

    client_server.expect_request("/drive").respond_with_handler(drive)
    shop = Shop(services, handing_over(client_server.url_for("/drive"), "neutral"))
    session = dial(shop, "4", "0", "9")
    assert (session.message, session.status) == ("You said 0*9", "completed")
    assert [(sent["entry"], sent["text"]) for sent in received] == [("", ""), ("0", "0"), ("9", "0*9")]
    assert received[0]["phone_number"] == PHONE
    transcript = services.api_sessions.get(session.session_id, shop.call).transcript
    assert [turn.entry for turn in transcript] == ["", "4", "****", "****"]


def test_a_neutral_server_may_call_its_screen_a_text_as_channels_do(
    services: Services, client_server: HTTPServer
) -> None:
    client_server.expect_request("/drive").respond_with_json({"action": "end", "text": "Thank you"})
    shop = Shop(services, handing_over(client_server.url_for("/drive"), "neutral"))
    assert dial(shop, "4").message == "Thank you"


def test_a_server_written_for_africas_talking_works_unchanged(services: Services, client_server: HTTPServer) -> None:
    received = []

    def drive(request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs(request.data.decode(), keep_blank_values=True).items()}
        received.append(form)
        word = "END Thank you\n" if form["text"].endswith("00") else "CON Your name?\n0. Skip\n"
        return Response(word, mimetype="text/html")

    client_server.expect_request("/at").respond_with_handler(drive)
    shop = Shop(services, handing_over(client_server.url_for("/at"), "africastalking"))
    session = dial(shop, "4")
    assert (session.message, session.action) == ("Your name?\n0. Skip", "continue")
    session = services.api_sessions.enter(EnterText(session.session_id, "0"), shop.call)
    session = services.api_sessions.enter(EnterText(session.session_id, "00"), shop.call)
    assert (session.message, session.action) == ("Thank you", "end")
    assert [form["text"] for form in received] == ["", "0", "0*00"]
    assert received[0] == {
        "sessionId": session.session_id,
        "phoneNumber": PHONE,
        "networkCode": "",
        "serviceCode": CODE,
        "text": "",
    }


@pytest.mark.parametrize("protocol", ["neutral", "africastalking"])
def test_a_driver_that_talks_nonsense_leads_where_the_menu_says(
    services: Services, client_server: HTTPServer, protocol: str
) -> None:
    shop = Shop(services, handing_over(client_server.url_for("/drive"), protocol))
    for body in (b"", b"HELLO", b"CONtinue", b'{"action": "stop"}', b'{"action": "end"}', b"\xff"):
        client_server.expect_ordered_request("/drive").respond_with_data(body)
        assert dial(shop, "4").message == "Goodbye"


def test_a_step_of_a_worker_that_died_is_taken_over_and_pays_once(services: Services, clock: MovableClock) -> None:
    shop = Shop(services)
    session = dial(shop, "1", "5000")
    UssdSession.update(working_token="dead", working_until=clock.now() + timedelta(seconds=7)).execute()
    clock.advance(7)
    paid = services.api_sessions.enter(EnterText(session.session_id, "1"), shop.call)
    assert paid.transaction_id == Transaction.get().id
    assert UssdSession.get().working_token is None


def test_a_first_step_of_a_worker_that_died_begins_anew(services: Services, clock: MovableClock) -> None:
    shop = Shop(services)
    first = step_of(shop)
    UssdSession.update(turns=[], working_token="dead", working_until=clock.now() - timedelta(seconds=1)).execute()
    assert step_of(shop) == first
    assert UssdSession.select().where(UssdSession.status == "active").count() == 1


@pytest.mark.both_databases
def test_a_step_is_waited_for_and_its_answer_shared(services: Services, clock: MovableClock) -> None:
    shop = Shop(services)
    session = dial(shop, "1")
    answered = dial(shop, "1", "5000")
    UssdSession.update(working_token="busy", working_until=clock.now() + timedelta(seconds=7)).where(
        UssdSession.id == session.session_id
    ).execute()
    done = UssdSession.get_by_id(answered.session_id)

    def enter() -> SessionView:
        try:
            return services.api_sessions.enter(EnterText(session.session_id, "5000", 2), shop.call)
        finally:
            release_connection()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(enter)
        UssdSession.update(
            turns=done.turns, turn=2, message="the other's answer", working_token=None, working_until=None
        ).where(UssdSession.id == session.session_id).execute()
        assert waiting.result(timeout=60).message == "the other's answer"


def test_no_more_steps_than_a_clients_places_wait_for_others(
    services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(services)
    session = dial(shop, "1")
    step_of(shop)
    UssdSession.update(working_token="busy", working_until=clock.now() + timedelta(seconds=60)).execute()
    pauses: list[float] = []
    monkeypatch.setattr(service_clock, "sleep", pauses.append)
    monkeypatch.setattr(sessions, "_WAIT_SECONDS", 0.05)
    monkeypatch.setattr(sessions, "_ATTEMPTS_OF_ALL", 1)

    def enter() -> int:
        pauses.clear()
        with pytest.raises(ServiceError, match="busy"):
            services.api_sessions.enter(EnterText(session.session_id, "5000", 2), shop.call)
        return len(pauses)

    def step(session_id: str = "a") -> int:
        pauses.clear()
        assert step_of(shop, session_id=session_id).startswith(("END", "CON"))
        return len(pauses)

    assert enter()
    assert step()
    with monkeypatch.context() as full:
        full.setattr(Bulkhead, "permit", lambda *_: nullcontext(False))
        assert (enter(), step(), step("b")) == (0, 0, 0)
    assert enter()


def test_a_repeat_is_known_across_a_rotation_of_the_master_keys(services: Services, settings: Settings) -> None:
    shop = Shop(services)
    step_of(shop)
    amount = step_of(shop, "1")
    Keyring(settings.secrets_file).add_keys()
    assert step_of(shop, "1") == amount
    assert step_of(shop, "1*5000").startswith("CON Pay UGX 5,000?")
    assert UssdSession.select().count() == 1


# Two hundred steps take five times as long on PostgreSQL, and other tests step there.
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_conversation_without_end_is_ended(services: Services, clock: MovableClock) -> None:
    shop = Shop(services)
    session = dial(shop)
    for _ in range(200):
        session = services.api_sessions.enter(EnterText(session.session_id, "x"), shop.call)
    assert (session.status, session.end_reason, session.action) == ("failed", "too_many_turns", "end")


def test_a_refused_payment_leads_where_the_menu_says_and_records_nothing(services: Services) -> None:
    payout = shop_document()["nodes"]["pay"] | {"kind": "disbursement"}
    shop = Shop(services, shop_document(nodes={"pay": payout}))
    assert dial(shop, "1", "5000", "1").message == "Goodbye"
    assert Transaction.select().count() == 0


def test_saying_no_and_yes_again_is_another_payment(services: Services) -> None:
    shop = Shop(services)
    session = dial(shop, "1", "5000", "2", "1", "6000", "1")
    payment = Transaction.get()
    assert (payment.amount_cents, payment.confirmation) == (600_000, "sure#2")
    assert payment.reference == payment_reference(session.session_id, "sure#2")


def test_a_payments_name_is_never_longer_than_a_reference_may_be() -> None:
    session_id = "0192e4a0-0000-7000-8000-00000000abcd"
    long = [payment_reference(session_id, f"{'n' * 40}#{visit}") for visit in (1, 2)]
    assert [len(name) for name in long] == [64, 64]
    assert long[0] != long[1]


def test_a_name_is_looked_up_with_the_provider(services: Services) -> None:
    name = {"type": "lookup_name", "of": "session.phone_number", "var": "name", "goto": "hello", "on_error": "bye"}
    nodes = {"voucher": name, "hello": {"type": "end", "text": {"en": "Hello {{vars.name}}"}}}
    document = shop_document(nodes=nodes)
    document["vars"]["name"] = {"type": "text", "max_len": 40, "overflow": "truncate"}
    del document["nodes"]["used"]
    shop = Shop(services, document)
    assert dial(shop, "4").message.startswith("Hello ")


def test_a_channels_own_budget_makes_pages(services: Services) -> None:
    options = [{"label": {"en": f"Choice number {n}"}, "goto": "bye"} for n in range(1, 8)]
    root = shop_document()["nodes"]["root"] | {"options": options}
    shop = Shop(services, shop_document(nodes={"root": root}), code="*7#")
    body = step_of(shop, path=shop.channel_of("africastalking", septets=80))
    assert body.endswith("98 More")
    assert len(body.removeprefix("CON ")) <= 80
