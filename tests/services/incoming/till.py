"""A till of the sandbox: it reports payments that payers make by themselves."""

from __future__ import annotations

from typing import Any

from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.services.incoming.messages import NotifiedPayment, NotifyPayment
from ussd_server.services.incoming.notices import NoticeService

BY, SECOND = "Mary Akello", "John Okot"
PAYER = "+256772123456"


class Till:
    """Reports payments to the service."""

    def __init__(self, services: Services, notices: NoticeService | None = None) -> None:
        self.notices, self._clock = notices or services.notices, services.clock

    def pay(self, code: str, shillings: int = 5000, receipt: str = "R1", **more: Any) -> NotifiedPayment:
        """A payer pays, and the till reports it."""
        at = more.pop("at", self._clock.now())
        provider, number = more.pop("provider", "sandbox"), more.pop("number", PAYER)
        notice = NotifyPayment(provider, receipt, code, shillings * 100, number, at, **more)
        return self.notices.notify(notice, RequestContext(Caller(CallerKind.NOBODY)))
