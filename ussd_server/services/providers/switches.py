"""Switches: an operator takes a provider out of use for new payments, in all processes, also after restarts."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ussd_server.cached_value import CachedValue
from ussd_server.clock import Clock
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import DATABASE_TROUBLE, unit_of_work
from ussd_server.models.providers import ProviderSwitch
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.providers.messages import SwitchProvider
from ussd_server.status import Code, ServiceError

_REFRESH_SECONDS = 1.0
_LONGEST_REASON = 200


class ProviderSwitches:
    """Which providers are switched off. Every process reads the table at most once a second."""

    def __init__(self, names: Collection[str], clock: Clock) -> None:
        """`names` are the providers that are set up here."""
        self._names = names
        self._clock = clock
        self._off = CachedValue[Mapping[str, ProviderSwitch]](self._read, _REFRESH_SECONDS, {})

    def is_off(self, provider: str) -> bool:
        """Whether operators have switched the provider off, as read at most a second ago."""
        return self.find(provider) is not None

    def find(self, provider: str) -> ProviderSwitch | None:
        """The switch of a provider that is switched off, None for one in use."""
        return self._off.refresh().get(provider)

    def set(self, request: SwitchProvider, context: RequestContext) -> None:
        """Switch a provider off or on. Existing payments are still sent and enquired about.

        Raises INVALID_REQUEST for a provider that is not set up, and unless a reason of 1 to 200 characters is given.
        """
        context.require_operator()
        if request.provider not in self._names:
            raise ServiceError(Code.INVALID_REQUEST, f"provider: Must be one of: {', '.join(self._names)}.")
        if not 0 < len(request.reason.strip()) <= _LONGEST_REASON:
            raise ServiceError(Code.INVALID_REQUEST, "A reason is needed, of at most 200 characters")
        now = self._clock.now()
        state = {"is_off": request.is_off, "reason": request.reason.strip(), "changed_at": now}
        with unit_of_work():
            written = ProviderSwitch.insert(provider=request.provider, **state)
            written.on_conflict(conflict_target=[ProviderSwitch.provider], update=state).execute()
            action = "provider.switched_off" if request.is_off else "provider.switched_on"
            write_audit_event(
                action, context, now, client_id=None, object_id=request.provider, reason=str(state["reason"])
            )
        self._off.set(self._read())

    def _read(self) -> Mapping[str, ProviderSwitch]:
        try:
            return {row.provider: row for row in ProviderSwitch.select().where(ProviderSwitch.is_off)}
        except DATABASE_TROUBLE:
            return self._off.value
