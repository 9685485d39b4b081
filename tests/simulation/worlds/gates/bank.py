"""The bank and the operators who settle with it, while the clients pay from the same money."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from typing import Any

from tests.simulation.worlds.callers import Answer, Callers
from tests.simulation.worlds.plan import Incident
from tests.simulation.worlds.scheduler import Scheduler
from tests.simulation.worlds.virtual_time import TIME
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.services.bank.messages import (
    ConfirmBankAccount,
    DueSettlement,
    EndSettlement,
    ProposeSettlements,
    RecordSettlements,
    SetSettlementTerms,
    StateBankAccount,
)
from ussd_server.services.clients.messages import CreateUser
from ussd_server.services.roles import PAGE_PERMISSIONS
from ussd_server.status import ServiceError

_OPERATORS = ("Ann", "Ben")
_OWNER, _PASSWORD = "owner", "correct horse battery"
# What stays here, so that the clients go on paying.
_KEPT_CENTS = 50_000_000


class Bank:
    """It pays each settlement at most once, or never, whatever becomes of the service's own record."""

    def __init__(self, scheduler: Scheduler, callers: Callers, note: Callable[..., None]) -> None:
        self._scheduler, self._callers, self._note = scheduler, callers, note
        self._paid: dict[str, DueSettlement] = {}
        self._unpaid: set[str] = set()
        callers.kinds["settlement to the bank"] = self._settle

    def _settle(self, incident: Incident) -> None:
        """Operators propose, the bank pays while others pay, and the operators record or cancel."""
        operator = operator_context()
        request = ProposeSettlements(_OPERATORS[0])
        self._callers.insist(incident, [], lambda services: _done(services.bank_settlements.propose(request, operator)))
        answer = self._callers.insist(
            incident, [], lambda services: {"waiting": services.bank_settlements.waiting(operator)}
        )
        waiting = (answer or {}).get("waiting", ())
        self._scheduler.pause(incident.given["paid_after"])
        for each in waiting:
            self._decide(each, incident.at, is_paid=incident.given["is_paid"])
        self._callers.insist(incident, [], lambda services: self._record(services, waiting))

    def _decide(self, due: DueSettlement, proposed_at: float, *, is_paid: bool) -> None:
        """Pay a settlement, or never; once decided, it stays so."""
        assert due.settlement_id is not None
        if due.settlement_id in self._paid or due.settlement_id in self._unpaid:
            return
        if not is_paid:
            self._unpaid.add(due.settlement_id)
            return
        self._paid[due.settlement_id] = due
        named = {"reference": _reference_of(due), "client": due.client_id, "cents": due.amount_cents}
        self._note("bank", proposed_at=proposed_at, **named)

    def _record(self, services: Services, waiting: tuple[DueSettlement, ...], *, is_paid: bool = False) -> Answer:
        """Record what the bank paid, and cancel what it did not; `is_paid`: what the service forgot, too."""
        for each in waiting:
            assert each.settlement_id is not None
            if each.settlement_id in self._paid:
                file = io.BytesIO(_completed(b"".join(services.bank_settlements.file([each])), each))
                services.bank_settlements.record(RecordSettlements(file, *_OPERATORS, is_paid), operator_context())
            else:
                services.bank_settlements.cancel(EndSettlement(each.settlement_id, *_OPERATORS), operator_context())
        return {"done": True}

    def end(self, services: Services) -> None:
        """On a quiet day the operators record what the bank has paid, also what was forgotten, and cancel the rest."""
        for each in (*self._paid.values(), *services.bank_settlements.waiting(operator_context())):
            self._decide(each, TIME.now, is_paid=False)
            try:
                self._record(services, (each,), is_paid=True)
            except ServiceError as refusal:
                self._note("unrecorded", reference=_reference_of(each), why=str(refusal))


def create_bank_accounts(services: Services, callers: Callers) -> None:
    """Confirm a bank account of each client."""
    for place, context in enumerate(callers.contexts):
        created = services.clients.create_user(
            CreateUser(context.client_id, f"{_OWNER}{place}@bank.example", _OWNER, _PASSWORD), operator_context()
        )
        caller = Caller(
            CallerKind.TOKEN, client_id=context.client_id, user_id=created.user_id, grants=PAGE_PERMISSIONS[_OWNER]
        )
        stated = StateBankAccount("Stanbic Bank", f"903000{place}", "Client")
        services.bank_accounts.state(stated, RequestContext(caller))
        shown = ConfirmBankAccount(context.client_id, _OPERATORS[0], number=stated.number)
        services.bank_accounts.confirm(shown, operator_context())
        terms = SetSettlementTerms(context.client_id, keep_cents=_KEPT_CENTS)
        services.bank_accounts.set_terms(terms, operator_context())


def _reference_of(due: DueSettlement) -> str:
    return f"FT{str(due.settlement_id).replace('-', '')[-20:]}"


def _completed(file: bytes, due: DueSettlement) -> bytes:
    """The file of one settlement with the bank's reference."""
    (row,) = csv.DictReader(io.StringIO(file.decode()))
    written = io.StringIO()
    lines = csv.DictWriter(written, row.keys())
    lines.writeheader()
    lines.writerow(row | {"bank_reference": _reference_of(due)})
    return written.getvalue().encode()


def _done(_: Any) -> Answer:
    return {"done": True}
