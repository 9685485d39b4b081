"""Endpoints for USSD sessions, to the letter of the contract."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.support.program import Program
from tests.support.shop import CODE, PHONE, VOUCHER, Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.sending import Event
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession

RECORD = [
    "session_id", "phone_number", "service_code", "network", "status", "end_reason", "action", "message", "menu_id",
    "menu_version", "node", "language", "turn", "transaction_id", "created_at", "last_seen_at", "expires_at",
    "ended_at",
]  # fmt: skip
PATH = "/api/ussd/sessions"
DIAL = {"phone_number": PHONE, "service_code": CODE}


@pytest.fixture
def program(services: Services, web: FlaskClient, shop: Shop) -> Program:
    return Program(services, web, client_id=shop.client_id)


def begin(program: Program, **more: str) -> str:
    """A session's path, after dialling."""
    reply = program.post(PATH, DIAL | more)
    assert reply.status_code == 201, reply.text
    return reply.headers["Location"]


def enter(program: Program, path: str, text: str, **more: int) -> TestResponse:
    return program.post(f"{path}/input", {"text": text} | more)


def refusal(reply: TestResponse) -> tuple[int, str]:
    assert list(reply.json) == ["success", "error", "message", "timestamp"]
    return reply.status_code, reply.json["error"]


def test_a_new_session_shows_its_record_its_first_screen_and_where_it_lies(program: Program) -> None:
    assert program.post(PATH, DIAL).json["data"]["network"] is None
    reply = program.post(PATH, DIAL | {"network": "64110"})
    record = reply.json["data"]
    assert (reply.status_code, list(record)) == (201, RECORD)
    assert reply.headers["Location"] == f"{PATH}/{record['session_id']}"
    assert record["message"] == "Welcome to ACME\n1. Pay\n2. Balance\n3. Language\n4. Voucher"
    begun = {name: record[name] for name in ("status", "action", "menu_id", "menu_version", "node", "language", "turn")}
    assert begun == {"status": "active", "action": "continue", "menu_id": "shop", "menu_version": 1, "node": "root",
                    "language": "en", "turn": 0}  # fmt: skip
    assert (record["network"], record["end_reason"], record["ended_at"], record["transaction_id"]) == (
        "64110",
        None,
        None,
        None,
    )


def test_a_bill_is_paid_turn_by_turn(program: Program) -> None:
    path = begin(program)
    assert enter(program, path, "1").json["data"]["message"].startswith("Enter amount")
    assert enter(program, path, "5000").json["data"]["node"] == "sure"
    last = enter(program, path, "1").json["data"]
    assert (last["status"], last["action"], last["end_reason"], last["turn"]) == ("completed", "end", "last_screen", 3)
    payment = program.see(last["transaction_id"])
    assert (payment["amount"], payment["session_id"], payment["status"]) == (5000, last["session_id"], "created")
    assert program.get("/data/collection").json["data"]["items"][0]["transaction_id"] == last["transaction_id"]


def test_the_last_turn_is_repeated_byte_for_byte_and_pays_once(program: Program) -> None:
    path = begin(program)
    first = enter(program, path, "1", turn=1)
    assert enter(program, path, "1", turn=1).data == first.data
    enter(program, path, "5000", turn=2)
    last = enter(program, path, "1", turn=3)
    assert enter(program, path, "1", turn=3).data == last.data, "also after the session has ended with it"
    assert Transaction.select().count() == 1


@pytest.mark.parametrize("turn", [0, 2, 4, 9999])
def test_a_turn_that_is_neither_the_last_nor_the_next_is_refused(program: Program, turn: int) -> None:
    path = begin(program)
    enter(program, path, "1")
    expected = (200, None) if turn == 2 else (400, "INVALID_TURN")
    reply = enter(program, path, "5000", turn=turn)
    assert (reply.status_code, reply.json.get("error")) == expected


@pytest.mark.both_databases
def test_the_confirm_step_posted_twenty_times_at_once_pays_once(
    app: Flask, services: Services, program: Program
) -> None:
    path = begin(program, text="1*5000")

    def press(_: int) -> bytes:
        try:
            reply = app.test_client().post(f"{path}/input", json={"text": "1", "turn": 1}, headers=program.headers)
            return reply.data
        finally:
            release_connection()

    with ThreadPoolExecutor(20) as pool:
        assert len(set(pool.map(press, range(20)))) == 1
    assert Transaction.select().count() == 1
    assert len(UssdSession.get().turns) == 2


def test_the_same_entry_later_is_a_new_entry(program: Program) -> None:
    path = begin(program)
    assert enter(program, path, "1").json["data"]["node"] == "amount"
    assert enter(program, path, "1").json["data"]["message"].startswith("Enter whole shillings")


def test_a_transcript_shows_everything_but_secrets(program: Program) -> None:
    path = begin(program)
    enter(program, path, "4")
    enter(program, path, VOUCHER)
    record = program.get(path).json["data"]
    assert list(record) == [*RECORD, "transcript"]
    transcript = record["transcript"]
    assert [(turn["turn"], turn["entry"], turn["node"]) for turn in transcript] == [
        (0, "", "root"),
        (1, "4", "voucher"),
        (2, "****", "used"),
    ]
    assert list(transcript[0]) == ["turn", "entry", "screen", "node", "septets", "took_ms", "at"]
    assert transcript[0]["septets"] == len(transcript[0]["screen"])
    assert VOUCHER not in program.get(path).text
    assert VOUCHER not in repr(UssdSession.get().__data__)


def test_a_session_that_is_over_takes_nothing_more_but_can_be_read(program: Program, clock: MovableClock) -> None:
    path = begin(program)
    ended = program.web.delete(path, headers=program.headers)
    assert (ended.status_code, ended.json["data"]["status"]) == (200, "ended_by_client")
    assert refusal(enter(program, path, "1")) == (404, "SESSION_NOT_FOUND")
    assert refusal(program.web.delete(path, headers=program.headers)) == (404, "SESSION_NOT_FOUND")
    assert program.get(path).json["data"]["status"] == "ended_by_client"
    expired = begin(program)
    clock.advance(180)
    assert refusal(enter(program, expired, "1")) == (404, "SESSION_NOT_FOUND")


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_malformed_dial_is_refused(program: Program) -> None:
    for body, error in (
        ({}, "INVALID_REQUEST"),
        ({"phone_number": "0772123456", "service_code": CODE}, "INVALID_PHONE_NUMBER"),
        ({"phone_number": PHONE, "service_code": "384"}, "INVALID_REQUEST"),
        ({"phone_number": PHONE, "service_code": CODE, "sesion": 1}, "INVALID_REQUEST"),
        ({"phone_number": PHONE, "service_code": CODE, "text": "1" * 183}, "INVALID_REQUEST"),
        ({"phone_number": PHONE, "service_code": CODE, "text": "1\n2"}, "INVALID_REQUEST"),
        ({"phone_number": PHONE, "service_code": CODE, "network": "64110; DROP"}, "INVALID_REQUEST"),
    ):
        assert refusal(program.post(PATH, body)) == (400, error)
    assert UssdSession.select().count() == 0


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_malformed_entry_is_refused(program: Program) -> None:
    path = begin(program)
    for body in ({}, {"text": 1}, {"text": "1", "turn": True}, {"text": "1", "turn": -1}, {"text": None}):
        assert refusal(program.post(f"{path}/input", body)) == (400, "INVALID_REQUEST")


def test_sessions_are_listed_newest_first_page_by_page(program: Program, clock: MovableClock) -> None:
    paths = []
    for _ in range(5):
        paths.append(begin(program))
        clock.advance(1)
    program.web.delete(paths[0], headers=program.headers)
    first = program.get(PATH, limit=3).json["data"]
    second = program.get(PATH, limit=3, cursor=first["next_cursor"]).json["data"]
    assert [f"{PATH}/{item['session_id']}" for item in first["items"] + second["items"]] == paths[::-1]
    assert second["next_cursor"] is None
    assert len(program.get(PATH, status="active").json["data"]["items"]) == 4
    assert program.get(PATH, phone_number="+256770000001").json["data"]["items"] == []
    assert len(program.get(PATH, service_code=CODE).json["data"]["items"]) == 5
    made_at = first["items"][0]["created_at"]
    assert len(program.get(PATH, **{"from": made_at}).json["data"]["items"]) == 1
    assert len(program.get(PATH, to=made_at).json["data"]["items"]) == 4
    assert refusal(program.get(PATH, cursor="x")) == (400, "INVALID_REQUEST")
    assert refusal(program.get(PATH, status="asleep")) == (400, "INVALID_REQUEST")


def test_a_session_of_a_gateway_is_seen_but_not_answered_by_programs(
    program: Program, shop: Shop, web: FlaskClient
) -> None:
    web.post(shop.channel.gateway_path, data={"sessionId": "a", "phoneNumber": PHONE, "serviceCode": CODE, "text": ""})
    path = f"{PATH}/{program.get(PATH).json['data']['items'][0]['session_id']}"
    assert program.get(path).status_code == 200
    assert refusal(enter(program, path, "1")) == (404, "SESSION_NOT_FOUND")


def test_a_menu_that_begins_with_an_action_and_a_menu_that_only_ends(services: Services, web: FlaskClient) -> None:
    shop = Shop(services, shop_document(start="balance"), code="*1#")
    program = Program(services, web, client_id=shop.client_id)
    record = program.post(PATH, {"phone_number": PHONE, "service_code": "*1#"}).json["data"]
    assert (record["status"], record["message"]) == ("completed", "Your balance is UGX 0")


def test_an_expired_session_is_ended_once_and_its_client_gets_an_event(
    program: Program, services: Services, clock: MovableClock
) -> None:
    paths = [begin(program), begin(program)]
    clock.advance(100)
    enter(program, paths[1], "1")
    clock.advance(100)
    assert (services.api_sessions.end_expired(), services.api_sessions.end_expired()) == (1, 0)
    record = program.get(paths[0]).json["data"]
    assert (record["status"], record["end_reason"], record["action"]) == ("timed_out", "idle", "end")
    event = Event.get(Event.type == "ussd.session.ended")
    assert (event.object_id, event.sequence) == (record["session_id"], 1)
    for _ in range(3):
        enter(program, paths[1], "x")
        clock.advance(150)
    assert services.api_sessions.end_expired() == 1
    assert program.get(paths[1]).json["data"]["end_reason"] == "too_long"


@pytest.mark.parametrize(
    ("scopes", "may_collect"), [(("ussd:write",), False), (("ussd:write", "transactions:write"), True)]
)
def test_a_menu_does_in_the_conversation_of_a_key_what_the_key_may(
    services: Services, web: FlaskClient, shop: Shop, scopes: tuple[str, ...], may_collect: bool
) -> None:
    writer = Program(services, web, *scopes, client_id=shop.client_id)
    path = begin(writer)
    enter(writer, path, "1")
    enter(writer, path, "5000")
    assert (enter(writer, path, "1").json["data"]["transaction_id"] is not None) is may_collect
