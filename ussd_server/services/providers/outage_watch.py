"""Records provider outages, and writes mails about them to operators."""

from __future__ import annotations

from datetime import datetime

from ussd_server.context import Caller, CallerKind, RequestContext, operator_context
from ussd_server.database.compiled_queries import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.providers import ProviderFloat
from ussd_server.runtime import Runtime
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import notify_operators
from ussd_server.services.mail.texts import written_moment
from ussd_server.services.providers.messages import ProviderState, ProviderStatus
from ussd_server.services.providers.states import ProviderStateService


class OutageWatch:
    """Compares the state of each provider with the last one that was recorded."""

    def __init__(self, runtime: Runtime, states: ProviderStateService) -> None:
        self._states = states
        self._clock = runtime.clock

    def look(self) -> None:
        """Record the providers that went away or came back since the last check by any worker."""
        kept = {row.provider: row.away_since is not None for row in ProviderFloat.select()}
        for state in self._states.list(operator_context()):
            is_away = state.status is ProviderStatus.UNAVAILABLE
            # A provider whose float was never asked for has no row yet.
            if state.provider in kept and kept[state.provider] is not is_away:
                self._record(state, is_away)

    def _record(self, state: ProviderState, is_away: bool) -> None:
        with unit_of_work():
            row, now = lock_row(ProviderFloat, state.provider), self._clock.now()
            if (row.away_since is not None) is is_away:
                # Another worker has recorded it first.
                return
            row.away_since = now if is_away else None
            row.save()
            write_audit_event(
                "provider.away" if is_away else "provider.back", RequestContext(Caller(CallerKind.NOBODY)), now,
                client_id=None, object_id=row.provider, is_automatic=True, reason=state.message,
            )  # fmt: skip
            _notify(state, is_away, now)


def _notify(state: ProviderState, is_away: bool, now: datetime) -> None:
    """Write mails to operators, one of each an hour for a provider that comes and goes."""
    about = {
        "provider": state.name, "state": "does not answer" if is_away else "answers again",
        "at": written_moment(now), "page": "/console/operator/providers",
        "consequence": "New payments there are refused until it answers." if is_away else "Payments go on.",
    }  # fmt: skip
    kind = MailKind.PROVIDER_AWAY
    occasion = f"{kind}/{state.provider}/{is_away}/{now:%Y-%m-%dT%H}"
    notify_operators(kind, about, now, occasion=occasion)
