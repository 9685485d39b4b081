"""A shop with a menu, a code and a channel, for tests of sessions."""

from __future__ import annotations

import copy
from typing import Any

from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.models.clients import Client
from ussd_server.services.menus.messages import AssignCode, BindCode, SaveDraft
from ussd_server.services.ussd.messages import CreateChannel, SmppOptions
from ussd_server.values import new_id

PHONE = "+256770000000"
CODE = "*384*123#"
# Typed into the secret entry. No id, digest, time or port holds it by chance, as one of them may hold a few digits.
VOUCHER = "Kwezi-7391"
OPERATOR = operator_context()

_DOCUMENT: dict[str, Any] = {
    "id": "shop",
    "title": "ACME",
    "start": "root",
    "default_language": "en",
    "languages": ["en", "lg"],
    "fallback": True,
    "resume": "confirm",
    "vars": {
        "amount": {"type": "amount"},
        "balance": {"type": "amount"},
        "code": {"type": "text", "max_len": len(VOUCHER)},
    },
    "nodes": {
        "root": {
            "type": "menu",
            "text": {"en": "Welcome to ACME", "lg": "Tukusanyukidde"},
            "options": [
                {"label": {"en": "Pay", "lg": "Sasula"}, "goto": "amount"},
                {"label": {"en": "Balance"}, "goto": "balance"},
                {"label": {"en": "Language"}, "goto": "language"},
                {"label": {"en": "Voucher"}, "goto": "voucher"},
            ],
        },
        "amount": {
            "type": "input",
            "text": {"en": "Enter amount (UGX)"},
            "var": "amount",
            "validate": [{"rule": "amount", "min": 500, "max": 999999}],
            "goto": "sure",
        },
        "sure": {"type": "confirm", "text": {"en": "Pay UGX {{vars.amount|ugx}}?"}, "yes": "pay", "no": "root"},
        "pay": {
            "type": "pay",
            "kind": "collection",
            "amount": "vars.amount",
            "phone_number": "session.phone_number",
            "accepted": {"end": {"en": "Approve the prompt on your phone.", "lg": "Kakasa ku ssimu yo."}},
            "rejected": {"goto": "bye"},
        },
        "balance": {"type": "balance", "of": "session.phone_number", "var": "balance", "goto": "show"},
        "show": {"type": "end", "text": {"en": "Your balance is UGX {{vars.balance|ugx}}"}},
        "language": {"type": "language", "goto": "root"},
        "voucher": {
            "type": "input",
            "text": {"en": "Enter your voucher code"},
            "var": "code",
            "secret": True,
            "goto": "used",
        },
        "used": {"type": "text", "text": {"en": "Your voucher was noted."}, "goto": "bye"},
        "bye": {"type": "end", "text": {"en": "Goodbye", "lg": "Weeraba"}},
    },
}


def shop_document(**changes: Any) -> dict[str, Any]:
    """The shop's menu, with some of its nodes or fields changed."""
    document = copy.deepcopy(_DOCUMENT)
    nodes = changes.pop("nodes", {})
    document["nodes"].update(nodes)
    document.update(changes)
    return document


class Shop:
    """A client with a published menu on a code, and a channel of Africa's Talking that leads to it."""

    def __init__(
        self,
        services: Services,
        document: dict[str, Any] | None = None,
        code: str = CODE,
        client_id: str | None = None,
        gateway: str = "africastalking",
    ) -> None:
        """`client_id` is a client that exists; None makes a new one."""
        self.services = services
        now = services.clock.now()
        self.client_id = client_id or new_id(now)
        if client_id is None:
            Client.create(id=self.client_id, name=f"ACME {code}", is_active=True, created_at=now, updated_at=now)
        self.call = client_call(self.client_id)
        self.code = code
        services.channels.assign_code(AssignCode(code, self.client_id), OPERATOR)
        document = document or shop_document()
        self.menu_id = document["id"]
        report = services.menus.save_draft(SaveDraft(self.menu_id, document), self.call)
        assert report.passes, report.errors
        services.menus.publish(self.menu_id, self.call)
        services.menus.bind_code(BindCode(code, self.menu_id), self.call)
        smpp = SmppOptions("smpp://127.0.0.1", "acme", "secret") if gateway == "smpp" else None
        self.channel = services.channels.create(CreateChannel(gateway, self.client_id, smpp=smpp), OPERATOR)

    def channel_of(self, adapter: str, **options: Any) -> str:
        """The gateway path of another channel for the same client."""
        return self.services.channels.create(CreateChannel(adapter, self.client_id, **options), OPERATOR).gateway_path


def client_call(client_id: str, grants: frozenset[str] | None = None) -> RequestContext:
    """A call by a key of a client."""
    return RequestContext(Caller(CallerKind.KEY, client_id=client_id, key_id=None, grants=grants))
