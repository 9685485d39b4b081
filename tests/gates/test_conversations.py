"""A conversation that a key leads has the rights of that key, at every node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.gates.test_sending import EFFECTS, OF_KEYS, Moment, Refusal
from tests.gates.world import MENU, Sender, World, paying_node
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, request, work
from tests.support.shop import CODE, PHONE, Shop, client_call, shop_document
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext
from ussd_server.models.keys import KeySpending
from ussd_server.models.sending import Mail
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import SubscriberPin
from ussd_server.services.clients.keys.messages import ApiKeyView, CreateApiKey
from ussd_server.services.subscribers.messages import ResetPin
from ussd_server.services.transactions.messages import ListTransactions
from ussd_server.services.ussd.messages import BeginSession, EnterText, SessionView
from ussd_server.status import Code, ServiceError

REJECTED, ACCEPTED = "Goodbye", "Approve the prompt on your phone."
OTHER_PHONE = "+256770000099"
TRANSFER = {
    **paying_node(),
    "kind": "transfer",
    "phone_number": "session.phone_number",
    "to_phone_number": f"'{OTHER_PHONE}'",
}
CHOOSES_PIN = {"type": "pin", "mode": "choose", "text": "Choose a PIN", "goto": "root", "locked": "bye"}
CHANGES_PIN = {**CHOOSES_PIN, "mode": "change", "missing": "bye"}
LOOKS_UP = {"type": "lookup_name", "of": "session.phone_number", "var": "name"}


def caller_of(services: Services, key: ApiKeyView) -> RequestContext:
    return RequestContext(services.auth.authenticate_key(key.apikey, key.apisecret, "192.0.2.1").caller)


def converse(services: Services, context: RequestContext, *entries: str, phone_number: str = PHONE) -> SessionView:
    """Dial the code and enter these texts, one by one."""
    sessions = services.api_sessions
    session = sessions.begin(BeginSession(phone_number, CODE), context)
    for text in entries:
        session = sessions.enter(EnterText(session.session_id, text), context)
    return session


def paying_shop(services: Services, client: ExampleClient, node: dict[str, object], **changes: Any) -> None:
    """The shop's menu with another paying node, published by an owner, and money to pay with."""
    owner = client.at_console()
    deposit(services, owner, 100_000)
    Shop(services, shop_document(id=MENU, nodes={"pay": node, **changes}), client_id=client.id)


@pytest.mark.parametrize("kind", ["disbursement", "transfer", "collection"])
@pytest.mark.parametrize(
    ("scopes", "sends", "collects"),
    [
        (("ussd:write",), False, False),
        (("ussd:*", "transactions:write", "menus:*"), False, True),
        (("ussd:write", "transactions:send"), True, False),
        (("ussd:write", "transactions:*"), True, True),
        (None, True, True),
    ],
)
def test_a_conversation_of_a_key_pays_what_the_key_may_pay(
    services: Services, clock: MovableClock, kind: str, scopes: tuple[str, ...] | None, sends: bool, collects: bool
) -> None:
    client = ExampleClient(services)
    node = TRANSFER if kind == "transfer" else paying_node() | {"kind": kind}
    paying_shop(services, client, node)
    if kind == "transfer":
        services.transactions.create(request(number=PHONE, account=PHONE, reference="wallet"), client.at_console())
        work(services, clock, 2)
    key = services.api_keys.create(CreateApiKey(scopes), client.at_console())
    before = Transaction.select().count()
    session = converse(services, caller_of(services, key), "1", "1000", "1")
    may = collects if kind == "collection" else sends
    assert session.message == (ACCEPTED if may else REJECTED)
    assert Transaction.select().count() - before == may
    assert not Mail.select().where(Mail.kind == "menu.sends_no_money").exists(), "the publisher was not revoked"


@pytest.mark.parametrize("role", ["owner", "admin", "developer"])
def test_a_role_moves_no_money_by_a_key_that_it_may_not_give_the_right_to_send(services: Services, role: str) -> None:
    """The attack: a developer makes a key, removes a subscriber's PIN, chooses another, and pays."""
    client = ExampleClient(services)
    paying_shop(services, client, paying_node())
    key = services.api_keys.create(CreateApiKey(None), client.at_console(role))
    session = converse(services, caller_of(services, key), "1", "1000", "1")
    assert session.message == (REJECTED if role == "developer" else ACCEPTED)


@pytest.mark.parametrize("node", [CHOOSES_PIN, CHANGES_PIN], ids=["choose", "change"])
def test_a_key_without_the_right_to_send_neither_chooses_nor_changes_nor_removes_a_pin(
    services: Services, node: dict[str, object]
) -> None:
    client = ExampleClient(services)
    Shop(services, shop_document(id=MENU, nodes={"voucher": node}), client_id=client.id)
    weak, able = (
        caller_of(services, client.create_key(*scopes)) for scopes in (("ussd:*",), ("ussd:*", "transactions:send"))
    )
    assert converse(services, weak, "4").message == REJECTED
    if node is CHOOSES_PIN:
        assert converse(services, able, "4", "2580", "2580").message.startswith("Welcome")
        with pytest.raises(ServiceError) as refused:
            services.subscriber_pins.reset(ResetPin(PHONE), weak)
        assert refused.value.code is Code.INSUFFICIENT_SCOPE
        assert SubscriberPin.get().pin_sealed is not None
        sender = caller_of(services, client.create_key("transactions:send"))
        assert services.subscriber_pins.reset(ResetPin(PHONE), sender).had_pin


@pytest.mark.parametrize(
    ("node", "scope", "may_see", "may_not_see"),
    [
        (None, "balance:read", "Your balance is UGX 0", "Goodbye"),
        (LOOKS_UP, "transactions:read", "You are", "Goodbye"),
    ],
    ids=["balance", "name"],
)
def test_a_node_shows_a_key_what_its_own_call_would_show(
    services: Services, node: dict[str, object] | None, scope: str, may_see: str, may_not_see: str
) -> None:
    client = ExampleClient(services)
    node = (node or shop_document()["nodes"]["balance"]) | {"on_error": "bye", "goto": "show"}
    nodes: dict[str, Any] = {"balance": node}
    if node["type"] == "lookup_name":
        nodes["show"] = {"type": "end", "text": "You are {{vars.name}}"}
    variables = shop_document()["vars"] | {"name": {"type": "text", "max_len": 40, "overflow": "truncate"}}
    Shop(services, shop_document(id=MENU, nodes=nodes, vars=variables), client_id=client.id)
    lacks, has = (caller_of(services, client.create_key(*scopes)) for scopes in (("ussd:*",), ("ussd:*", scope)))
    assert converse(services, lacks, "2").message == may_not_see
    assert converse(services, has, "2").message.startswith(may_see)


def test_a_payment_by_a_conversation_shows_its_key_with_the_menu_and_counts_for_the_limit_of_that_key(
    services: Services,
) -> None:
    client = ExampleClient(services)
    paying_shop(services, client, paying_node())
    key = services.api_keys.create(
        CreateApiKey(("ussd:write", "transactions:*"), name="till", daily_limit_cents=2500_00), client.at_console()
    )
    call = caller_of(services, key)
    assert [converse(services, call, "1", "1200", "1").message for _ in range(3)] == [ACCEPTED, ACCEPTED, REJECTED]
    assert KeySpending.get(KeySpending.key_id == key.id).spent_cents == 2400_00
    views = services.transactions.list(ListTransactions(key_id=key.id), call).items
    assert len(views) == 2
    for view in views:
        made_by = view.made_by
        assert (made_by.kind.value, made_by.id, made_by.name) == ("key", key.id, "till")
        assert made_by.via_menu is not None
        assert (made_by.via_menu.id, made_by.via_menu.title) == (MENU, "ACME")


def test_the_key_that_confirms_counts_not_the_one_that_began(services: Services) -> None:
    client = ExampleClient(services)
    paying_shop(services, client, paying_node())
    strong = caller_of(services, client.create_key("ussd:*", "transactions:send"))
    weak = caller_of(services, client.create_key("ussd:*"))
    session = converse(services, strong, "1", "1000")
    session = services.api_sessions.enter(EnterText(session.session_id, "1"), weak)
    assert session.message == REJECTED
    assert not Transaction.select().where(Transaction.type == "disbursement").exists()


CASES = [(refusal, moment) for refusal in Refusal if refusal in OF_KEYS for moment in Moment]


@pytest.mark.parametrize(("refusal", "moment"), CASES, ids=lambda each: each.value)
def test_nothing_leaves_by_the_conversation_of_a_key_that_was_refused(
    services: Services, clock: MovableClock, refusal: Refusal, moment: Moment
) -> None:
    world = World(services, clock, Sender.PERSON)
    call = caller_of(services, world.key)
    session = converse(services, call, "1", "1000")
    confirm: Callable[[], object] = lambda: services.api_sessions.enter(  # noqa: E731
        EnterText(session.session_id, "1"), caller_of(services, world.key)
    )
    if moment is Moment.WAITING:
        confirm()
        EFFECTS[refusal](world)
    else:
        EFFECTS[refusal](world)
        try:
            confirm()
        except ServiceError:
            pass
    world.work()
    assert world.left() == []
    assert world.reserved_cents() == 0


def test_phones_never_resume_what_a_key_entered_nor_a_key_what_a_phone_entered(
    services: Services, web: FlaskClient
) -> None:
    shop = Shop(services, shop_document(resume="confirm"))
    path = shop.channel.gateway_path

    def dial(session_id: str, text: str) -> str:
        form = {
            "sessionId": session_id, "phoneNumber": PHONE, "networkCode": "64110", "serviceCode": CODE, "text": text,
        }  # fmt: skip
        return web.post(path, data=form).text

    converse(services, shop.call, "1", "1000")
    services.api_sessions.end(converse(services, shop.call, "1", "2000").session_id, shop.call)
    assert dial("one", "").startswith("CON Welcome")
    dial("one", "1")
    dial("one", "1*3000")
    assert converse(services, client_call(shop.client_id)).message.startswith("Welcome")
    assert not dial("two", "").startswith("CON Welcome"), "a phone resumes what a phone entered, over a key's session"
