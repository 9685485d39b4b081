"""Shared by all providers that are called over HTTP."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Generic, TypeVar

from ussd_server.outbound.transport import Transport
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.http.connection import Breaker, ProviderConnection
from ussd_server.providers.http.replies import failed
from ussd_server.providers.messages import MOST_CENTS, Bounds, Direction, Outcome, PaymentOrder, ProviderAnswer
from ussd_server.providers.package import ProviderAccess

Access = TypeVar("Access", bound=ProviderAccess)


class HttpProvider(ABC, Generic[Access]):
    """Base of an adapter for a provider of whole shillings; a subclass adds its requests and how it reads the replies.

    `until` is the moment of the monotonic clock at which a call ends.
    """

    name: str
    moves_whole_shillings_only = True
    refunds_in_full_only = False
    plain_references = False
    shows_balance = True
    sends_callbacks = True

    def __init__(self, access: Access, transport: Transport, *, breaker: Breaker | None = None) -> None:
        self.schedule = access.schedule
        self.connection, self.draining = access.connection or self.name, access.draining
        self.account = access.account or self.connection
        self._access = access
        self._transport = transport
        self._breaker = breaker or Breaker()
        self._connection = ProviderConnection(access.base_url, transport, self._breaker, access.secrets)

    @property
    def available(self) -> bool:
        """False while the breaker is open."""
        return not self._breaker.rests

    @property
    def refusal(self) -> str:
        """What the provider said when it refused our last call, empty if it did not."""
        return self._connection.refusal

    @property
    def refused_in_a_row(self) -> int:
        return self._connection.refused_in_a_row

    def has_access_since(self, seconds: float) -> bool:
        """Whether it granted an access token within so many seconds."""
        granted_at = self._connection.granted_at
        return granted_at is not None and time.monotonic() - granted_at < seconds

    @cached_property
    def bounds(self) -> Mapping[Direction, Bounds]:
        """What it moves in each direction, within the bounds of the API."""
        least_cents, most_cents = self._access.least_shillings * 100, min(self._access.most_shillings * 100, MOST_CENTS)
        return {each: Bounds(self._is_set_up_for(each), least_cents, most_cents) for each in Direction}

    def send(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """Send the payment; an amount that the provider cannot move fails without a call.

        A refund may have more than its bound, because the provider has moved the payment that it gives back.
        """
        shillings, rest_cents = divmod(payment.amount_cents, 100)
        is_too_much = shillings > self._access.most_shillings and payment.direction is not Direction.REFUND
        if rest_cents or shillings < self._access.least_shillings or is_too_much:
            return failed(FailureCode.AMOUNT_OUT_OF_BOUNDS, left_machine=False)
        answer = self._send(payment, time.monotonic() + timeout_seconds)
        if answer.failure is FailureCode.PROVIDER_CONFIG and answer.left_machine:
            self._connection.refused_in_a_row += 1
        elif answer.outcome in (Outcome.PENDING, Outcome.SUCCEEDED):
            self._connection.refused_in_a_row = 0
        return answer

    def query_status(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        return self._query_status(payment, time.monotonic() + timeout_seconds)

    def place(self, direction: Direction) -> str:
        """Where payments of a direction are sent: address, environment and user."""
        return self._access.place(direction)

    def close(self) -> None:
        self._transport.close()

    def _is_set_up_for(self, direction: Direction) -> bool:
        """Whether there is what a payment in this direction needs, such as keys or a PIN."""
        return True

    @abstractmethod
    def _send(self, payment: PaymentOrder, until: float) -> ProviderAnswer: ...

    @abstractmethod
    def _query_status(self, payment: PaymentOrder, until: float) -> ProviderAnswer: ...
