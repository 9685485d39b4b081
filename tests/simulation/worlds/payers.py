"""Payers who pay by themselves, the till that asks and reports, and the operators who decide what is held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from tests.simulation.worlds.callers import Answer, Callers
from tests.simulation.worlds.payer_plan import CODES, PREFIXES
from tests.simulation.worlds.plan import Incident
from tests.simulation.worlds.provider import SimulatedProvider
from tests.simulation.worlds.scheduler import Scheduler
from tests.simulation.worlds.virtual_time import STARTED_AT, TIME
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.services.incoming.messages import CheckPayment, NotifyPayment, PutPaymentCode, SetPrefix
from ussd_server.services.movements.messages import (
    AssignMovement,
    EndMovement,
    ListMovements,
    MovementView,
)

_TILL = RequestContext(Caller(CallerKind.NOBODY))
_OPERATORS = ("Ann", "Ben")
_PAGE = 200
_PATIENCE_SECONDS = 30.0
# How often the operators assign a payment whose code was suggested, and one for which they ask the payer.
_ASSIGNED_AS_SUGGESTED, _ASSIGNED, _RETURNED = 0.9, 0.5, 0.8


def create_codes(services: Services, contexts: list[RequestContext]) -> None:
    """Give each client its prefix and codes."""
    for context, prefix in zip(contexts, PREFIXES, strict=True):
        assert context.caller.client_id is not None
        services.payment_codes.set_prefix(SetPrefix(context.caller.client_id, prefix), operator_context())
    for code, (place, cents) in CODES.items():
        services.payment_codes.put(PutPaymentCode(code, "Fees", amount_cents=cents), contexts[place])


@dataclass
class Payers:
    """Their payments are in the provider's book at once; the service learns of them by the till, or by a statement."""

    scheduler: Scheduler
    provider: SimulatedProvider
    callers: Callers
    note: Callable[..., None]
    seed: str

    def __post_init__(self) -> None:
        self._meant: dict[str, str] = {}
        self.callers.kinds |= {"payer": self._pay, "operators": self._decide_held}

    def note_codes(self) -> None:
        """Say in the history which codes there are."""
        for code, (place, cents) in CODES.items():
            self.note("code", code=code, client=self.callers.contexts[place].caller.client_id, cents=cents)

    def _pay(self, incident: Incident) -> None:
        """A payer asks perhaps, pays, and is reported as often as the plan says."""
        given = incident.given
        if given["is_checked"]:
            self.callers.insist(incident, [], lambda services: self._check(services, given))
        receipt, at = self.provider.pay_in(given["phone"], given["cents"], given["typed"]), TIME.now
        self._meant[receipt] = given["code"]
        if given["reported_after"] is None:
            return
        self.scheduler.pause(given["reported_after"])
        notice = NotifyPayment(
            "mtn", receipt, given["typed"], given["cents"], given["phone"], STARTED_AT + timedelta(seconds=at)
        )
        named = {name: given[name] for name in ("client", "phone", "cents")}
        asked = {"name": f"in/{receipt}", "kind": "collection", **named}
        self.callers.insist(incident, [asked], lambda services: _report(services, notice))

    def _check(self, services: Services, given: dict[str, Any]) -> Answer:
        answer = services.notices.check(CheckPayment(given["typed"], given["cents"]))
        self.note("checked", typed=given["typed"], cents=given["cents"], is_taken=answer.accepted)
        return {}

    def _decide_held(self, incident: Incident) -> None:
        """The operators go through what is held."""
        calls = Incident(incident.at, incident.kind, {"again": [], "patience": _PATIENCE_SECONDS})
        listed = self.callers.insist(calls, [], lambda services: {"items": _held(services)}) or {"items": []}
        for payment in listed["items"]:
            if decision := self._decision(payment):
                self.callers.insist(calls, [], decision)

    def decide_all(self, services: Services) -> None:
        """The operators go through what is held, on a quiet day."""
        for payment in _held(services):
            if decision := self._decision(payment):
                decision(services)

    def _decision(self, payment: MovementView) -> Callable[[Services], Answer] | None:
        """What the operators do with a held payment, always the same; None: they leave it."""
        receipt = payment.receipts[0] if payment.receipts else ""
        if receipt not in self._meant or payment.use is not None:
            # A client has asked for it; its collection decides. What is to be given back is decided.
            return None
        meant, drawn = self._meant[receipt], Random(f"{self.seed}/decision/{receipt}").random()
        if drawn < (_ASSIGNED_AS_SUGGESTED if meant in payment.suggestions else _ASSIGNED):
            self.note("decided", receipt=receipt, code=meant)
            assign = AssignMovement(payment.movement_id, meant, *_OPERATORS)
            return lambda services: {"done": bool(services.movement_uses.assign(assign, operator_context()))}
        if drawn < _RETURNED:
            self.note("decided", receipt=receipt, code=None)
            back = EndMovement(payment.movement_id, "The payer asked for it", *_OPERATORS)
            return lambda services: {"done": bool(services.movement_uses.mark_returned(back, operator_context()))}
        return None


def _held(services: Services) -> list[MovementView]:
    found: list[MovementView] = []
    cursor = None
    while True:
        page = services.movements.list(ListMovements(limit=_PAGE, cursor=cursor, is_held=True), operator_context())
        found += page.items
        if (cursor := page.next_cursor) is None:
            return found


def _report(services: Services, notice: NotifyPayment) -> Answer:
    reply = services.notices.notify(notice, _TILL)
    if reply.transaction_id is None:
        return {"held": True}
    return {"id": reply.transaction_id, "status": "succeeded", "cents": notice.amount_cents}
