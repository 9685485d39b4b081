"""Tills that report money for which a client has asked here: the same payment by two ways."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tests.simulation.worlds.callers import Answer, Callers
from tests.simulation.worlds.plan import Incident
from tests.simulation.worlds.provider import Entry, SimulatedProvider
from tests.simulation.worlds.scheduler import Scheduler
from tests.simulation.worlds.virtual_time import STARTED_AT, TIME
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.services.incoming.messages import NotifyPayment
from ussd_server.services.transactions.messages import CreateTransaction, TransactionType

_TILL = RequestContext(Caller(CallerKind.NOBODY))


class SameMoney:
    """Collections whose payer typed a payment code: the till reports them when the provider has moved the money."""

    def __init__(
        self, scheduler: Scheduler, provider: SimulatedProvider, callers: Callers, note: Callable[..., None]
    ) -> None:
        self._scheduler, self._callers, self._note = scheduler, callers, note
        self._reported: dict[str, Incident] = {}
        self.receipts: set[str] = set()
        callers.kinds["reported"] = self._pay
        provider.when_taken = self._taken

    def _pay(self, incident: Incident) -> None:
        given = incident.given
        self._reported[given["phone"]] = incident

        def create(services: Services) -> Answer:
            request = CreateTransaction(
                TransactionType.COLLECTION,
                given["phone"],
                given["cents"],
                given["name"],
                provider="mtn",
                description=given["code"],
            )
            created = services.transactions.create(request, self._callers.contexts[given["client"]])
            view = created.transaction
            return {"id": view.transaction_id, "status": view.status, "cents": view.amount_cents}

        self._callers.insist(incident, [{**given, "kind": "collection"}], create)

    def _taken(self, entry: Entry) -> None:
        """The till reports a payment that succeeds at once, so many seconds after it moved."""
        incident = self._reported.get(entry.phone)
        if incident is None or [status for _, status in entry.steps] != ["succeeded"]:
            return
        ((moved_at, _),) = entry.steps
        wait = moved_at - TIME.now + incident.given["reported_after"]
        self._scheduler.spawn(self._callers.outside, "till", lambda: self._report(entry, moved_at, incident), wait)

    def _report(self, entry: Entry, moved_at: float, incident: Incident) -> None:
        given: dict[str, Any] = incident.given
        receipt = str(entry.number)
        self.receipts.add(receipt)
        self._note("reported", receipt=receipt, code=given["code"])
        notice = NotifyPayment(
            "mtn",
            given["written"].format(receipt),
            given["code"],
            given["cents"],
            given["phone"] if given["is_numbered"] else None,
            STARTED_AT + timedelta(seconds=moved_at),
        )

        def notify(services: Services) -> Answer:
            return {"status": services.notices.notify(notice, _TILL).status}

        self._callers.insist(Incident(incident.at, "till", given | {"again": given["reported_again"]}), [], notify)
