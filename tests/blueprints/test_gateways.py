"""The door of phone companies: whole conversations on the wire, as each company speaks."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.shop import CODE, OPERATOR, PHONE, VOUCHER, Shop, shop_document
from ussd_server.app import create_app
from ussd_server.house import Services, build_services
from ussd_server.messages.channels import AssignCode, CreateChannel
from ussd_server.messages.menus import NameMenu, SaveDraft
from ussd_server.models.base import close_connections, open_database, release_connection
from ussd_server.models.clients import Client
from ussd_server.models.events import Event
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.sessions import Sessions
from ussd_server.settings import Settings

Dial = Callable[..., str]


@pytest.fixture
def shop(house: Services) -> Shop:
    """A client whose menu answers."""
    return Shop(house)


@pytest.fixture
def at(shop: Shop, web: FlaskClient) -> Dial:
    """Post as Africa's Talking does; gives the body of the answer."""

    def post(text: str, session: str = "ATUid_1", phone: str = PHONE, **changes: str) -> str:
        form = {"sessionId": session, "phoneNumber": phone, "networkCode": "64110", "serviceCode": CODE, "text": text}
        reply = web.post(shop.channel.gateway_path, data=form | changes)
        assert (reply.status_code, reply.mimetype) == (200, "text/plain")
        return reply.text

    return post


def test_a_bill_is_paid_from_the_first_screen_to_the_last(at: Dial, shop: Shop) -> None:
    assert at("") == "CON Welcome to ACME\n1. Pay\n2. Balance\n3. Language\n4. Voucher"
    assert at("1") == "CON Enter amount (UGX)\n0 Back"
    assert at("1*5000") == "CON Pay UGX 5,000?\n1. Yes\n2. No\n0 Back"
    assert at("1*5000*1") == "END Approve the prompt on your phone."
    session, payment = UssdSession.get(), Transaction.get()
    assert (session.status, session.end_reason, session.transaction_id) == ("completed", "last_screen", payment.id)
    assert (payment.amount_cents, payment.type, payment.phone_number) == (500_000, "collection", PHONE)
    assert (payment.session_id, payment.client_id) == (session.id, shop.client_id)
    assert payment.reference == f"ussd-{session.id}-sure#1"
    event = Event.get(Event.type == "ussd.session.ended")
    assert (event.object_id, event.sequence, event.payload["menu_id"]) == (session.id, 1, "shop")


def test_the_table_of_turns_to_the_letter(at: Dial) -> None:
    welcome, amount = at(""), at("1")
    assert at("1") == amount, "the same text is a repeat"
    wrong = at("1*5")
    assert wrong.startswith("CON Enter whole shillings")
    assert at("1*5") == wrong
    confirm = at("1*5*5000")
    assert confirm.startswith("CON Pay UGX 5,000?")
    assert [at("1*5"), at("1"), at("")] == [wrong, amount, welcome], "late repeats get their turn's answer"
    assert at("1*5*5000*").startswith("CON Invalid choice."), "an empty entry"
    assert at("1*5*5000**a*b").startswith("CON Invalid choice."), "a star that the person typed"
    assert len(UssdSession.get().turns) == 6
    assert at("2") == welcome, "what fits nothing begins anew"
    assert [row.status for row in UssdSession.select().order_by(UssdSession.id)] == ["ended_by_user", "active"]
    assert Transaction.select().count() == 0


def test_entries_that_were_dialled_along_stop_before_the_confirmation(at: Dial) -> None:
    assert at("1*5000*1").startswith("CON Pay UGX 5,000?")
    assert Transaction.select().count() == 0
    assert at("1*5000*1*1") == "END Approve the prompt on your phone."


def test_the_confirm_step_posted_twenty_times_at_once_pays_once(at: Dial) -> None:
    for text in ("", "1", "1*5000"):
        at(text)
    answers = _at_once(lambda _: at("1*5000*1"), 20)
    assert set(answers) == {"END Approve the prompt on your phone."}
    assert Transaction.select().count() == 1
    assert len(UssdSession.get().turns) == 4


def test_the_first_step_posted_twenty_times_at_once_begins_one_session(at: Dial) -> None:
    assert len(set(_at_once(lambda _: at(""), 20))) == 1
    assert UssdSession.select().count() == 1


def test_every_step_of_a_conversation_may_be_posted_by_many_at_once(at: Dial) -> None:
    for text in ("", "1", "1*5000", "1*5000*1"):
        assert len(set(_at_once(lambda _, text=text: at(text), 8))) == 1
    assert (UssdSession.select().count(), Transaction.select().count()) == (1, 1)


def test_the_last_screen_is_repeated_and_a_new_call_under_the_same_name_begins_anew(at: Dial) -> None:
    for text in ("", "1", "1*5000"):
        at(text)
    last = at("1*5000*1")
    assert at("1*5000*1") == last
    assert at("1*5000").startswith("CON Pay UGX 5,000?")
    assert at("").startswith("CON Welcome")
    assert at("2") == "END Your balance is UGX 0"
    assert Transaction.select().count() == 1


def test_a_secret_entry_is_in_no_row(at: Dial) -> None:
    at("")
    at("4")
    assert at(f"4*{VOUCHER}").startswith("CON Your voucher was noted.")
    assert at(f"4*{VOUCHER}").startswith("CON Your voucher was noted."), "a repeat is known without the secret"
    row = UssdSession.get()
    assert VOUCHER not in repr(row.__data__)
    assert [turn["entry"] for turn in row.turns] == ["", "4", "****"]


def test_the_chosen_language_is_remembered_for_the_phone(at: Dial) -> None:
    at("")
    assert "Luganda" in at("3")
    assert at("3*2").startswith("CON Tukusanyukidde")
    assert at("", session="ATUid_2").startswith("CON Tukusanyukidde")
    assert at("", session="ATUid_3", phone="+256770000001").startswith("CON Welcome")


def test_a_call_that_broke_off_can_be_continued(at: Dial, clock: MovableClock) -> None:
    for text in ("", "1", "1*5000"):
        at(text)
    offer = at("", session="ATUid_2")
    assert offer == "CON Continue where you stopped?\n1. Yes\n2. Start again"
    assert at("1", session="ATUid_2").startswith("CON Enter amount"), "never straight to a confirmation"
    clock.advance(601)
    assert at("", session="ATUid_3").startswith("CON Welcome"), "nor after ten minutes"


def test_a_call_that_broke_off_is_counted_by_its_node(at: Dial, shop: Shop, web: FlaskClient) -> None:
    place = f'ussd_sessions_dropped_total{{code="{CODE}",end_reason="abandoned",menu="shop",node="amount"}}'

    def counted() -> float:
        lines = (line.rpartition(" ") for line in web.get("/metrics").text.splitlines())
        return sum(float(value) for name, _, value in lines if name == place)

    at("")
    at("1")
    before = counted()
    report = {"sessionId": "ATUid_1", "phoneNumber": PHONE, "status": "Incomplete"}
    for _ in range(2):
        assert web.post(f"{shop.channel.gateway_path}/events", data=report).status_code == 200
    assert counted() == before + 1


def test_a_payment_of_a_call_that_broke_off_is_the_first_screen_of_the_next(
    at: Dial, shop: Shop, web: FlaskClient
) -> None:
    for text in ("", "1", "1*5000", "1*5000*1"):
        at(text)
    report = {"sessionId": "ATUid_1", "phoneNumber": PHONE, "serviceCode": CODE, "networkCode": "64110",
              "status": "Failed", "date": "2026-11-20 08:15:30"}  # fmt: skip
    assert web.post(f"{shop.channel.gateway_path}/events", data=report).status_code == 200
    assert at("", session="ATUid_2") == "CON Your payment is being processed.\n1. Continue"
    assert at("1", session="ATUid_2").startswith("CON Welcome")


def test_a_session_whose_time_is_up_begins_anew(at: Dial, clock: MovableClock) -> None:
    at("")
    clock.advance(181)
    assert at("1").startswith("CON Enter amount"), "the entry is applied to the new session"
    assert [(row.status, row.end_reason) for row in UssdSession.select().order_by(UssdSession.id)] == [
        ("timed_out", "idle"),
        ("active", None),
    ]
    assert Event.select().where(Event.type == "ussd.session.ended").count() == 1


def test_a_session_keeps_the_version_it_began_with(at: Dial, shop: Shop, house: Services) -> None:
    at("")
    changed = shop_document(nodes={"amount": shop_document()["nodes"]["amount"] | {"text": {"en": "How much?"}}})
    house.menus.save_draft(SaveDraft("shop", changed), shop.call)
    house.menus.publish(NameMenu("shop"), shop.call)
    assert at("1").startswith("CON Enter amount")
    assert at("", session="ATUid_2").startswith("CON Welcome")
    assert at("1", session="ATUid_2").startswith("CON How much?")


def test_a_balance_is_shown_on_the_phone(at: Dial) -> None:
    at("")
    assert at("2") == "END Your balance is UGX 0"


def test_a_path_that_is_nobodys_is_a_404_in_the_general_envelope(shop: Shop, web: FlaskClient) -> None:
    path = shop.channel.gateway_path
    for wrong in (path[:-1], path.replace("africastalking", "hubtel"), "/ussd/nobody/x", "/ussd/json/%ED%A0%80"):
        reply = web.post(wrong, data={"sessionId": "x"})
        assert (reply.status_code, reply.json["error"]) == (404, "NOT_FOUND")
    assert web.post(f"{path[:-1]}/events").status_code == 404


def test_a_channel_that_is_closed_answers_like_nobodys_from_the_next_step_on(
    at: Dial, shop: Shop, house: Services, web: FlaskClient
) -> None:
    assert at("").startswith("CON Welcome")
    house.channels.set_active(shop.channel.channel_id, False, OPERATOR)
    reply = web.post(shop.channel.gateway_path, data={"sessionId": "ATUid_1", "phoneNumber": PHONE, "text": "1"})
    assert (reply.status_code, reply.json["error"]) == (404, "NOT_FOUND")
    house.channels.set_active(shop.channel.channel_id, True, OPERATOR)
    assert at("1").startswith("CON Enter amount")


@pytest.mark.parametrize("limit", [12_000, 60])
def test_a_channel_that_is_closed_answers_like_nobodys_whatever_comes_by_it(
    shop: Shop, house: Services, settings: Settings, limit: int
) -> None:
    path = shop.channel.gateway_path
    remembers, other = (build_services(replace(settings, channel_limit_per_minute=limit)) for _ in range(2))
    web = create_app(remembers).test_client()
    assert {web.post(path, data={}).status_code for _ in range(61)} == {200}
    house.channels.set_active(shop.channel.channel_id, False, OPERATOR)
    replies = [web.post(path, data={}), create_app(other).test_client().post(path, data={})]
    assert [(reply.status_code, reply.json["error"]) for reply in replies] == [(404, "NOT_FOUND")] * 2
    for each in (remembers, other):
        each.limiter.close()


def test_a_step_that_cannot_be_read_gets_a_screen_while_the_database_is_away(shop: Shop, web: FlaskClient) -> None:
    assert web.post(shop.channel.gateway_path, data={}).status_code == 200
    close_connections()
    open_database("postgresql://nobody@127.0.0.1:1/none", 1)
    reply = web.post(shop.channel.gateway_path, data={})
    assert (reply.status_code, reply.text) == (200, "END Sorry, this did not work. Please try again later.")


def test_a_wrong_method_is_a_405_in_the_general_envelope(shop: Shop, web: FlaskClient) -> None:
    reply = web.put(shop.channel.gateway_path)
    assert (reply.status_code, reply.json["error"]) == (405, "METHOD_NOT_ALLOWED")
    assert "POST" in reply.headers["Allow"]
    assert web.get(f"{shop.channel.gateway_path}/events").status_code == 405


@pytest.mark.parametrize(
    "form",
    [{}, {"sessionId": "x"}, {"sessionId": "x", "phoneNumber": "0"}, {"sessionId": "\n", "phoneNumber": PHONE},
     {"sessionId": "x", "phoneNumber": PHONE, "serviceCode": "*999#"},
     {"sessionId": "x", "phoneNumber": PHONE, "text": "1" * 2000}],
)  # fmt: skip
def test_whatever_is_sent_the_phone_gets_a_polite_last_screen(
    form: dict[str, str], shop: Shop, web: FlaskClient
) -> None:
    reply = web.post(shop.channel.gateway_path, data=form)
    assert (reply.status_code, reply.text) == (200, "END Sorry, this did not work. Please try again later.")


def test_a_body_that_is_too_large_still_gets_a_screen_on_a_path_that_is_somebodys(shop: Shop, web: FlaskClient) -> None:
    path = shop.channel.gateway_path
    reply = web.post(path, data=b"x" * 70_000)
    assert (reply.status_code, reply.text) == (200, "END Sorry, this did not work. Please try again later.")
    assert web.post(path[:-1], data=b"x" * 70_000).status_code == 404


def test_a_missing_code_is_the_channels_only_one(shop: Shop, web: FlaskClient) -> None:
    path = shop.channel_of("africastalking", codes=(CODE,))
    assert web.post(path, data={"sessionId": "x", "phoneNumber": PHONE}).text.startswith("CON Welcome")
    other = web.post(path, data={"sessionId": "y", "phoneNumber": PHONE, "serviceCode": "*200#"})
    assert other.text.startswith("END Sorry")


def test_a_missing_code_is_the_clients_only_one_on_a_channel_that_lists_none(
    shop: Shop, house: Services, web: FlaskClient
) -> None:
    path = shop.channel.gateway_path
    assert web.post(path, data={"sessionId": "x", "phoneNumber": PHONE}).text.startswith("CON Welcome")
    house.channels.assign_code(AssignCode("*200#", shop.client_id), OPERATOR)
    assert web.post(path, data={"sessionId": "y", "phoneNumber": PHONE}).text.startswith("END Sorry")


def test_a_disabled_client_answers_no_phone(at: Dial, shop: Shop) -> None:
    at("")
    Client.update(is_active=False).where(Client.id == shop.client_id).execute()
    assert at("1").startswith("END Sorry")
    assert at("", session="ATUid_2").startswith("END Sorry")


def test_a_channel_of_all_clients_carries_everybodys_codes(shop: Shop, house: Services, web: FlaskClient) -> None:
    other = Shop(house, shop_document(id="kiosk"), code="*200#")
    everybody = house.channels.create(CreateChannel("africastalking"), OPERATOR).gateway_path
    for code, owner in ((CODE, shop), ("*200#", other)):
        reply = web.post(everybody, data={"sessionId": code, "phoneNumber": PHONE, "serviceCode": code})
        assert reply.text.startswith("CON Welcome")
        assert UssdSession.get(UssdSession.provider_session_id == code).client_id == owner.client_id
    reply = web.post(shop.channel.gateway_path, data={"sessionId": "z", "phoneNumber": PHONE, "serviceCode": "*200#"})
    assert reply.text.startswith("END Sorry"), "a client's own channel carries its own codes only"


def test_trouble_inside_is_a_polite_screen_in_the_persons_language(
    at: Dial, shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    at("")
    at("3")
    at("3*2")
    monkeypatch.setattr(Sessions, "write", _fail)
    assert at("3*2*4") == "END Nsonyiwa, tekisobose. Gezaako nate oluvannyuma."
    assert VOUCHER not in caplog.text
    assert "ValueError" in caplog.text


def test_trouble_after_a_payment_was_recorded_never_says_that_it_failed(
    at: Dial, house: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    for text in ("", "1", "1*5000"):
        at(text)
    with monkeypatch.context() as broken:
        broken.setattr("ussd_server.services.sessions.Sessions.write", _fail)
        assert at("1*5000*1") == "END Your payment is being processed."
    assert Transaction.select().count() == 1
    assert at("", session="ATUid_2").startswith("CON Your payment is being processed.")


def test_a_channel_over_its_limit_still_answers_with_a_screen(settings: Settings, shop: Shop) -> None:
    narrow = build_services(replace(settings, channel_limit_per_minute=60))
    web = create_app(narrow).test_client()
    screens = [web.post(shop.channel.gateway_path, data={"sessionId": "x"}).text for _ in range(60)]
    form = {"sessionId": "ATUid_1", "phoneNumber": PHONE, "serviceCode": CODE, "text": ""}
    assert (
        web.post(shop.channel.gateway_path, data=form).text
        == screens[0]
        == "END Sorry, this did not work. Please try again later."
    )
    narrow.limiter.clear("channel", shop.channel.channel_id)
    assert web.post(shop.channel.gateway_path, data=form).text.startswith("CON Welcome")
    narrow.limiter.close()


def test_hubtel_numbers_its_steps(shop: Shop, web: FlaskClient) -> None:
    path = shop.channel_of("hubtel", codes=(CODE,))

    def post(kind: str, message: str, sequence: int) -> dict[str, Any]:
        body = {"Type": kind, "SessionId": "h1", "Mobile": "256770000000", "ServiceCode": "384*123",
                "Message": message, "Operator": "mtn", "Sequence": sequence}  # fmt: skip
        reply = web.post(path, json=body)
        assert reply.status_code == 200
        return reply.json  # type: ignore[no-any-return]

    first = post("Initiation", "*384*123#", 1)
    assert first["Message"].startswith("Welcome")
    assert post("Initiation", "*384*123#", 1) == first
    amount = post("Response", "1", 2)
    assert amount["Message"].startswith("Enter amount")
    assert post("Response", "1", 2) == amount, "the same number is a repeat"
    assert post("Response", "5000", 4)["Type"] == "Release", "a number that was left out is refused"
    assert post("Response", "5000", 3)["Message"].startswith("Pay UGX 5,000?")
    assert post("Release", "", 4) == {"Type": "Release", "Message": ""}
    assert UssdSession.get().status == "ended_by_user"


def test_dmark_sends_one_entry_a_step_without_numbers(shop: Shop, web: FlaskClient) -> None:
    path = shop.channel_of("dmark", codes=(CODE,))

    def get(text: str, is_new: bool = False) -> dict[str, str]:
        query = {"transactionId": "d1", "msisdn": "256770000000", "ussdServiceCode": "384",
                 "ussdRequestString": text, "response": "false" if is_new else "true"}  # fmt: skip
        return web.get(path, query_string=query).json  # type: ignore[no-any-return]

    assert get("*384*123#", is_new=True)["responseString"].startswith("Welcome")
    assert get("*384*123#", is_new=True)["responseString"].startswith("Welcome")
    assert UssdSession.select().count() == 1
    assert get("1")["responseString"].startswith("Enter amount")
    assert get("1")["responseString"].startswith("Enter whole shillings"), "the same text later is a new entry"
    assert get("5000")["responseString"].startswith("Pay UGX 5,000?")
    ended = get("1")
    assert ended == {"responseString": "Approve the prompt on your phone.", "action": "end"}
    assert get("1") == ended
    assert Transaction.select().count() == 1


@pytest.mark.parametrize("codes", [(CODE,), ()])
@pytest.mark.parametrize("dialled", ["384*123", "384123"])
def test_comviva_tells_a_first_step_by_the_dialled_code(
    dialled: str, codes: tuple[str, ...], shop: Shop, web: FlaskClient
) -> None:
    path = shop.channel_of("comviva", codes=codes)

    def get(entry: str, **more: str) -> Any:
        return web.get(path, query_string={"SessionID": "c1", "MSISDN": "256750000000", "input": entry} | more)

    first = get(dialled)
    assert (first.headers["Freeflow"], first.text.splitlines()[0]) == ("FC", "Welcome to ACME")
    assert get("1").text.startswith("Enter amount")
    assert get("", clean="clean-session", error="0").headers["Freeflow"] == "FB"
    assert UssdSession.get().status == "ended_by_user"


def test_madapi_and_plain_json_walk_the_same_menu(shop: Shop, web: FlaskClient) -> None:
    madapi, plain = shop.channel_of("madapi", codes=(CODE,)), shop.channel_of("json", codes=(CODE,))
    begin = {"sessionId": "m1", "messageType": "0", "msisdn": "256770000000", "serviceCode": CODE, "ussdString": CODE}
    first = web.post(madapi, json=begin).json["data"]
    assert first["inboundResponse"].startswith("Welcome")
    assert first["userInputRequired"]
    assert web.post(madapi, json=begin | {"messageType": "5"}).status_code == 200
    assert UssdSession.get().status == "timed_out"
    step = {"session_id": "p1", "phone_number": PHONE, "service_code": CODE, "text": "1*5000", "kind": "begin"}
    assert web.post(plain, json=step).json["message"].startswith("Pay UGX 5,000?")


def _at_once(act: Callable[[int], str], count: int) -> list[str]:
    def run(number: int) -> str:
        try:
            return act(number)
        finally:
            release_connection()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def _fail(*_: Any, **__: Any) -> Any:
    raise ValueError(f"the entry was {VOUCHER}")
