"""A till of the sandbox: it reports payments that payers make by themselves."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.services.incoming.messages import NotifiedPayment, NotifyPayment
from ussd_server.services.incoming.notices import NoticeService

BY, SECOND = "Mary Akello", "John Okot"
PAYER = "+256772123456"
_AT = datetime(2026, 11, 20, 8, 15, tzinfo=UTC)


class Till:
    """Reports payments to the service."""

    def __init__(self, services: Services, notices: NoticeService | None = None) -> None:
        self.notices = notices or services.notices

    def pay(self, code: str, shillings: int = 5000, receipt: str = "R1", **more: Any) -> NotifiedPayment:
        """A payer pays, and the till reports it."""
        provider, at, number = more.pop("provider", "sandbox"), more.pop("at", _AT), more.pop("number", PAYER)
        notice = NotifyPayment(provider, receipt, code, shillings * 100, number, at, **more)
        return self.notices.notify(notice, RequestContext(Caller(CallerKind.NOBODY)))
