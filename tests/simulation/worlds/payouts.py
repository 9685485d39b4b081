"""Clients that pay many people at once, retry rows that failed, and cancel what was not sent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.simulation.worlds.callers import Answer, Callers
from tests.simulation.worlds.plan import Incident
from tests.simulation.worlds.scheduler import Scheduler
from tests.simulation.worlds.virtual_time import STARTED_AT
from ussd_server.bootstrap import Services
from ussd_server.services.payouts.messages import (
    ApprovePayout,
    CancelPayout,
    CreatePayout,
    ListPayouts,
    PayoutView,
    RetryPayout,
)
from ussd_server.status import Code, ServiceError


class Payouts:
    """One key of a client creates a payout, retries and cancels it, another approves it."""

    def __init__(self, scheduler: Scheduler, callers: Callers) -> None:
        self._scheduler, self._callers = scheduler, callers
        callers.kinds["payout"] = self._pay_out

    def _pay_out(self, incident: Incident) -> None:
        given = incident.given
        rows = [{"client": given["client"], "kind": "disbursement", **row} for row in given["rows"]]
        self._callers.insist(incident, rows, lambda services: self._send(services, incident))
        for turn, after in given.get("turns", [("retry", given.get("retried_after"))] * 2):
            if after is None:
                return
            self._scheduler.pause(after)
            act = {"open": self._open, "retry": self._retry, "cancel": self._cancel}[turn]

            def insist(act: Any = act) -> None:
                self._callers.insist(incident, rows, lambda services: act(services, incident))

            if given.get("by_two"):
                self._scheduler.spawn(self._callers.outside, "payout", insist)
            insist()

    def _send(self, services: Services, incident: Incident) -> Answer:
        given = incident.given
        after = given["sent_after"]
        send_at = after and STARTED_AT + timedelta(seconds=incident.at + after)
        items = tuple(
            {"phone_number": row["phone"], "amount": row["cents"] // 100, "reference": row["name"].split("/")[1]}
            for row in given["rows"]
        )
        request = CreatePayout(given["name"], items=items, send_at=send_at)
        created = services.payouts.create(request, self._callers.contexts[given["client"]])
        self._scheduler.point("between creation and approval")
        self._approve(services, incident, created.payout)
        # What is cancelled later may never become a payment.
        return {} if "turns" in given else {"accepted": True}

    def _open(self, services: Services, incident: Incident) -> Answer:
        """Open a round, which the next retry approves."""
        self._round(services, incident)
        return {}

    def _round(self, services: Services, incident: Incident) -> PayoutView:
        payout_id = self._found(services, incident).payout_id
        return services.payouts.retry(RetryPayout(payout_id), self._callers.contexts[incident.given["client"]]).payout

    def _retry(self, services: Services, incident: Incident) -> Answer:
        opened = self._round(services, incident)
        self._scheduler.point("between a round and its approval")
        self._approve(services, incident, opened)
        return {} if "turns" in incident.given else {"accepted": True}

    def _cancel(self, services: Services, incident: Incident) -> Answer:
        payout_id = self._found(services, incident).payout_id
        services.payouts.cancel(CancelPayout(payout_id), self._callers.contexts[incident.given["client"]])
        return {}

    def _approve(self, services: Services, incident: Incident, payout: PayoutView) -> None:
        approver = self._callers.approvers[incident.given["client"]]
        services.payouts.approve(ApprovePayout(payout.payout_id, payout.round.number), approver)

    def _found(self, services: Services, incident: Incident) -> PayoutView:
        """The payout; the client is refused what the database has lost."""
        listed = ListPayouts(reference=incident.given["name"])
        payouts = services.payouts.list(listed, self._callers.contexts[incident.given["client"]]).items
        if not payouts:
            raise ServiceError(Code.NOT_FOUND, "The payout was lost")
        return payouts[0]
