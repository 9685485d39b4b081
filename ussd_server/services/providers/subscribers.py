"""Names of subscribers: queried at their provider, and kept for a day."""

from __future__ import annotations

from datetime import timedelta

from ussd_server.context import RequestContext
from ussd_server.models.providers import SubscriberName
from ussd_server.providers.messages import Registration
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.providers.messages import Subscriber
from ussd_server.services.runtime import Runtime
from ussd_server.status import Code, ServiceError

_KEPT = timedelta(days=1)
_TIMEOUT_SECONDS = 5.0


class SubscriberNames:
    """Reads names from the table, else from the provider that the phone number belongs to."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._providers = runtime.clock, runtime.providers

    def kept(self, phone_number: str) -> Registration | None:
        """The reply of the provider within the last day; None when it was not queried or had no answer."""
        provider = self._providers.of_number(phone_number)
        is_known = (SubscriberName.provider == provider) & (SubscriberName.phone_number == phone_number)
        is_fresh = SubscriberName.asked_at > self._clock.now() - _KEPT
        row = SubscriberName.select(SubscriberName.name).where(is_known, is_fresh).first()
        return None if row is None else Registration(row.name, row.name is not None)

    def query(self, phone_number: str, timeout_seconds: float) -> Registration:
        """Query the provider now, for at most `timeout_seconds`, and keep its answer if it has one."""
        name = self._providers.of_number(phone_number)
        provider = self._providers.get(name or "")
        if provider is None or self._providers.is_away(provider.name):
            return Registration()
        registration = provider.look_up(phone_number, timeout_seconds)
        if registration.is_registered is not None:
            answer = {"name": registration.name, "asked_at": self._clock.now()}
            SubscriberName.put({"provider": provider.name, "phone_number": phone_number}, answer)
        return registration

    def read(self, phone_number: str, timeout_seconds: float) -> str | None:
        """The name, from the last day or from the provider; None for a number without one."""
        return (self.kept(phone_number) or self.query(phone_number, timeout_seconds)).name

    def clean(self) -> int:
        """Remove names that are older than a day; return their number."""
        removed: int = SubscriberName.delete().where(SubscriberName.asked_at < self._clock.now() - _KEPT).execute()
        return removed


class SubscriberService:
    """Shows clients to whom a phone number is registered."""

    def __init__(self, runtime: Runtime, names: SubscriberNames) -> None:
        self._limiter, self._providers = runtime.limiter, runtime.providers
        self._names = names
        self._permit = Bulkhead(8, 2).permit

    def get(self, phone_number: str, context: RequestContext) -> Subscriber:
        """The subscriber of a phone number; name and registration are None where the provider has no answer in time.

        Raises RATE_LIMIT_EXCEEDED when the client asks for too many numbers that are not kept.
        """
        context.require("transactions:read")
        registration = self._names.kept(phone_number)
        if registration is None:
            decision = self._limiter.hit("subscriber-names", context.client_id)
            if not decision.accepted:
                raise ServiceError(
                    Code.RATE_LIMIT_EXCEEDED,
                    "Too many subscribers were asked for",
                    retry_after_seconds=decision.retry_after_seconds,
                )
            with self._permit(context.client_id) as has_permit:
                registration = self._names.query(phone_number, _TIMEOUT_SECONDS) if has_permit else Registration()
        return Subscriber(
            phone_number, self._providers.of_number(phone_number), registration.name, registration.is_registered
        )
