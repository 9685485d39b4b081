"""A client with people and real keys, for tests of who makes, approves and withdraws payouts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from tests.conftest import MovableClock
from tests.services.payouts.desk import PayoutDesk
from tests.support.example_client import OPERATOR, PASSWORD, ExampleClient
from tests.support.money import deposit
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext, operator_context
from ussd_server.services.clients.keys.messages import ApiKeyView, CreateApiKey
from ussd_server.services.clients.messages import CreateUser
from ussd_server.services.payouts.messages import ApprovePayout, PayoutView


class StaffedDesk(PayoutDesk):
    """A client with money, whose people and keys are made by the services."""

    def __init__(self, services: Services, clock: MovableClock) -> None:
        self.services, self.clock, self.payouts = services, clock, services.payouts
        self.client = ExampleClient(services)
        self.client_id = self.client.id
        self.owner = self.client.at_console("owner")
        self.admin = self.client.at_console("admin")
        self.maker = self.key("payouts:write", "payouts:read", by=self.owner)
        self.approver = self.key("payouts:approve", "payouts:read")
        deposit(services, operator_context(self.client_id), 500_000)

    def key(
        self,
        *scopes: str,
        by: RequestContext | None = None,
        expires_at: datetime | None = None,
        limit_cents: int | None = None,
    ) -> RequestContext:
        """The caller of a new key, which the operator or a person made."""
        request = CreateApiKey(scopes or None, expires_at, daily_limit_cents=limit_cents)
        return self.caller_of(self.services.api_keys.create(request, by or operator_context(self.client_id)))

    def caller_of(self, key: ApiKeyView) -> RequestContext:
        caller = self.services.auth.authenticate_key(key.apikey, key.apisecret, "192.0.2.1").caller
        return RequestContext(caller, address="192.0.2.1")

    def person(self, name: str, role: str = "admin") -> RequestContext:
        """The operator makes a person."""
        email = f"{name}@acme.example"
        self.services.clients.create_user(CreateUser(self.client_id, email, role, PASSWORD), OPERATOR)
        user_id = self.services.clients.find_user(email, OPERATOR).user_id
        caller = self.client.at_console(role if role != "viewer" else "viewer").caller
        return RequestContext(replace(caller, user_id=user_id), address="192.0.2.1")

    def approve_as(self, payout: PayoutView, context: RequestContext, **more: Any) -> PayoutView:
        return self.payouts.approve(ApprovePayout(payout.payout_id, **more), context)

    def dated(self, days: float, reference: str = "P1", **more: Any) -> PayoutView:
        """A draft of three rows that is due in so many days."""
        rows = [{"phone_number": "+256770000000", "amount": 100, "reference": f"r{place}"} for place in range(3)]
        return self.draft(*rows, reference=reference, send_at=self.clock.now() + timedelta(days=days), **more)

    def status(self, payout: PayoutView) -> str:
        return self.see(payout).status.value
