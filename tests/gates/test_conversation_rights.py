"""The matrix of conversations: for every node, the scopes of a key and the roles of a person that let it act."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from tests.conftest import MovableClock
from tests.gates.test_conversations import caller_of
from tests.support.example_client import ExampleClient
from tests.support.money import deposit, request, work
from tests.support.shop import CODE, Shop
from ussd_server.bootstrap import Services
from ussd_server.context import APPROVE, RequestContext, operator_context
from ussd_server.menus.document.nodes import NODES, ActionNode, PinNode, WaitNode
from ussd_server.menus.engine.actions import PinAction
from ussd_server.models.sending import Sms
from ussd_server.services.clients.keys.messages import SCOPES, CreateApiKey
from ussd_server.services.roles import GIVES_SCOPES, PERMISSIONS
from ussd_server.services.subscribers.pins import PinTry
from ussd_server.services.ussd.messages import BeginSession, EnterText
from ussd_server.status import Code, ServiceError

DID, DID_NOT = "It was done.", "It was not done."
OTHER = "'+256770000099'"
NEEDS: dict[str, set[str] | None] = {
    "balance": {"balance:read", "balance:*"},
    "lookup_name": {"transactions:read", "transactions:*"},
    "sms": {"messages:write", "messages:*"},
    "collection": {"transactions:write", "transactions:*"},
    "disbursement": {"transactions:send", "transactions:*"},
    "transfer": {"transactions:send", "transactions:*"},
    "wait_for_payment": {"transactions:write", "transactions:*"},
    "pin choose": {"transactions:send", "transactions:*"},
    "pin change": {"transactions:send", "transactions:*"},
    "pin ask": None,
}
"""For each act of a menu, the scopes any of which its key needs beside `ussd:write`; None for none."""
TRUSTED = {"http", "handover"}
"""They call the client's own server, which the client trusts as it does its key."""


def _nodes(act: str) -> dict[str, Any]:
    """The nodes of a menu that does one thing, after a confirmation, and says whether it did."""
    to = {"goto": "did", "on_error": "did_not"}
    pay = {
        "type": "pay",
        "kind": act if act in ("disbursement", "transfer") else "collection",
        "amount": "1000",
        "phone_number": "session.phone_number",
        "accepted": "did" if act != "wait_for_payment" else "wait",
        "rejected": "did_not",
    }
    ways = {"succeeded": "did", "failed": "did", "waiting": "did"}
    pin = {"type": "pin", "mode": act.rpartition(" ")[2], "text": "PIN", "goto": "did", "locked": "did_not"}
    acts = {
        "balance": {"type": "balance", "var": "money", **to},
        "lookup_name": {"type": "lookup_name", "of": "session.phone_number", "var": "name", **to},
        "sms": {"type": "sms", "to": "session.phone_number", "text": "Hello", "goto": "did"},
        "transfer": pay | {"to_phone_number": OTHER, "account": "main"},
        "pin choose": pin,
        "pin change": pin | {"missing": "did_not"},
        "pin ask": pin | {"missing": "did_not"},
    }
    wait = {"wait": {"type": "wait_for_payment", "seconds": 1, **ways}} if act == "wait_for_payment" else {}
    return {"act": acts.get(act, pay), **wait}


def _menu(act: str) -> dict[str, Any]:
    return {
        "id": "rights",
        "start": "sure",
        "vars": {"money": {"type": "amount"}, "name": {"type": "text", "overflow": "truncate"}},
        "nodes": {
            "sure": {"type": "confirm", "text": "Do it?", "yes": "act", "no": "did_not"},
            **_nodes(act),
            "did": {"type": "end", "text": DID},
            "did_not": {"type": "end", "text": DID_NOT},
        },
    }


PIN, NEW_PIN = "2580", "1397"
_ENTRIES = {"pin choose": (PIN, PIN), "pin change": (PIN, NEW_PIN, NEW_PIN), "pin ask": (PIN,)}


class Conversing:
    """A client whose menu does one thing, and subscribers with money and, where they need one, a PIN."""

    def __init__(self, services: Services, clock: MovableClock, act: str) -> None:
        self.services, self.act, self.client = services, act, ExampleClient(services)
        self._phones = iter([f"+2567700010{number:02}" for number in range(2 * len(SCOPES))])
        deposit(services, self.client.at_console(), 900_000)
        Shop(services, _menu(act), client_id=self.client.id)
        if act == "transfer":
            self._phones, phones = itertools.tee(self._phones)
            for phone in phones:
                services.transactions.create(request(number=phone, account=phone), self.client.at_console())
            work(services, clock, 5)

    def does_it(self, call: RequestContext) -> bool:
        """Whether a conversation by this call does it."""
        phone, sent = next(self._phones), Sms.select().count()
        if self.act in ("pin change", "pin ask"):
            self._choose_pin(phone)
        sessions = self.services.api_sessions
        session = sessions.begin(BeginSession(phone, CODE), call)
        for entry in ("1", *_ENTRIES.get(self.act, ())):
            if session.action == "continue":
                session = sessions.enter(EnterText(session.session_id, entry), call)
        assert session.message in (DID, DID_NOT)
        return Sms.select().count() > sent if self.act == "sms" else session.message == DID

    def key(self, *scopes: str, role: str = "") -> RequestContext:
        """A call of a fresh key, made by a person with this role, else by the operator."""
        maker = self.client.at_console(role) if role else operator_context(self.client.id)
        return caller_of(self.services, self.services.api_keys.create(CreateApiKey(scopes), maker))

    def _choose_pin(self, phone: str) -> None:
        tried = PinTry(self.client.id, phone, f"chosen/{phone}")
        self.services.subscriber_pins.answer(PinAction("pin", "new", "choose", 3, PIN), tried)


@pytest.fixture(params=NEEDS)
def act(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def conversing(services: Services, clock: MovableClock, act: str, monkeypatch: pytest.MonkeyPatch) -> Conversing:
    monkeypatch.setattr(services.api_sessions._conversations._actions, "_sends_messages", True)
    return Conversing(services, clock, act)


def test_every_node_that_acts_stands_in_the_matrix() -> None:
    acting = {name for name, kind in NODES.items() if issubclass(kind, ActionNode | PinNode | WaitNode)}
    kinds = {"collection", "disbursement", "transfer"}
    assert acting == {name.partition(" ")[0] for name in NEEDS} - kinds | TRUSTED | {"pay"}


def test_a_node_acts_for_these_scopes_of_a_key_and_no_others(conversing: Conversing, act: str) -> None:
    able = {scope for scope in sorted(SCOPES) if conversing.does_it(conversing.key("ussd:write", scope))}
    assert able == (NEEDS[act] or set(SCOPES))


def test_a_role_acts_by_a_conversation_only_where_it_may_give_a_key_the_right(conversing: Conversing, act: str) -> None:
    needed = NEEDS[act]
    for role in PERMISSIONS:
        given = sorted(GIVES_SCOPES[role] - {APPROVE}) or ["ussd:write"]
        if role == "viewer":
            with pytest.raises(ServiceError) as refused:
                conversing.key(*given, role=role)
            assert refused.value.code is Code.INSUFFICIENT_SCOPE
        else:
            may = needed is None or bool(needed & GIVES_SCOPES[role])
            assert conversing.does_it(conversing.key(*given, role=role)) is may
