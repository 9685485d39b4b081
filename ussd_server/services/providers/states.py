"""The state of every provider, from calls of the last 15 minutes and operators' switches, and a watch for outages."""

from __future__ import annotations

from datetime import datetime

from ussd_server.context import CallerKind, RequestContext, automatic_context, operator_context
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.languages import gettext, marked
from ussd_server.models.clients import AuditEvent, Client
from ussd_server.models.operations import WorkerHeartbeat
from ussd_server.models.providers import ProviderAccount
from ussd_server.providers.http.replies import UNREACHED, is_cause, is_refusal
from ussd_server.providers.messages import Direction, Provider
from ussd_server.providers.registry import title, title_of_account
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.mail.texts import written_moment
from ussd_server.services.providers.call_history import CallSums, sums_of
from ussd_server.services.providers.messages import (
    AdoptedPlace,
    AdoptPlace,
    OperatorProviderState,
    ProviderChange,
    ProviderStatus,
    SwitchProvider,
)
from ussd_server.services.providers.places import adopt, waiting_elsewhere
from ussd_server.services.providers.providers import REFUSES
from ussd_server.services.runtime import Runtime

# With fewer calls, the share of failures is not used, unless all failed.
_FEWEST_CALLS = 5
_GOOD_SHARE = 0.9
_AWAY_SHARE = 0.2
_CHANGES_SHOWN = 20


class ProviderStateService:
    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._providers = runtime.clock, runtime.providers
        self._switches = runtime.switches

    def list(self, context: RequestContext) -> tuple[OperatorProviderState, ...]:
        """Every provider that is set up here. Reads one row for each worker.

        Operators see each connection, those that take new payments first; a client sees those that take its own.
        """
        context.require("transactions:read")
        now = self._clock.now()
        workers = [row.measures["recent"] for row in WorkerHeartbeat.select(WorkerHeartbeat.measures)]
        floats = {row.account: row for row in ProviderAccount.select()}
        is_operator = context.caller.kind is CallerKind.OPERATOR
        waiting = waiting_elsewhere(self._providers) if is_operator else {}
        kinds = dict.fromkeys(each.name for each in self._providers.connections)
        taking = [own for kind in kinds if (own := self._providers.get(kind, context.caller.client_id)) is not None]
        others = [each for each in self._providers.connections if each not in taking] if is_operator else []
        clients = self._clients_alone() if is_operator else {}
        states = []
        for provider in [*taking, *others]:
            sums = sums_of(provider.connection, workers, now)
            status, since, message = self._judge(provider, sums)
            kept = floats.get(provider.account)
            states.append(
                OperatorProviderState(
                    provider=provider.name,
                    connection=provider.connection,
                    account=provider.account,
                    client=clients.get(provider.connection),
                    name=title(provider.name),
                    status=status,
                    collections=provider.bounds[Direction.COLLECTION],
                    disbursements=provider.bounds[Direction.DISBURSEMENT],
                    success_rate=sums.success_rate,
                    median_seconds=sums.median_seconds,
                    since=since,
                    message=message,
                    float_amount_cents=kept.amount_cents if kept else None,
                    float_at=kept.read_at if kept else None,
                    float_low_since=kept.low_since if kept else None,
                    call_count=sums.total,
                    failed_count=sums.failed,
                    unanswered_count=sums.unanswered,
                    last_error=sums.last_error,
                    last_error_at=sums.last_error_at,
                    waiting_elsewhere=dict(waiting.get(provider.name, {})) if provider in taking else {},
                )
            )
        return tuple(states)

    def _clients_alone(self) -> dict[str, str]:
        """The names of the clients that have connections of their own, by connection."""
        owners = {name: client for (client, _), name in self._providers.owners().connections.items()}
        if not owners:
            return {}
        names = {row.id: row.name for row in Client.select().where(Client.id.in_(list(owners.values())))}
        return {connection: names[client] for connection, client in owners.items()}

    def changes(self, context: RequestContext) -> tuple[ProviderChange, ...]:
        """The last 20 changes of the providers that are set up here, newest first."""
        context.require_operator()
        names = {*self._providers.accounts, *(each.connection for each in self._providers.connections)}
        rows = (
            AuditEvent.select()
            .where(AuditEvent.client_id.is_null(), AuditEvent.object_id.in_(names))
            .order_by(AuditEvent.id.desc())
            .limit(_CHANGES_SHOWN)
        )
        return tuple(
            ProviderChange(row.created_at, str(row.object_id), row.action, row.actor, row.operator, row.reason)
            for row in rows
        )

    def switch(self, request: SwitchProvider, context: RequestContext) -> OperatorProviderState:
        """Switch a connection off or on, and return its state.

        Raises INVALID_REQUEST for one that is not set up here, and as `ProviderSwitches.set`.
        """
        self._switches.set(request, context)
        return next(state for state in self.list(context) if state.connection == request.connection)

    def adopt(self, request: AdoptPlace, context: RequestContext) -> AdoptedPlace:
        """Let a connection have the payments of another place; see `places.adopt`."""
        return adopt(request, self._providers, context, self._clock.now())

    def _judge(self, provider: Provider, sums: CallSums) -> tuple[ProviderStatus, datetime | None, str]:
        """The status of a provider, since when, and a sentence about it."""
        switch = self._switches.find(provider.connection)
        if switch is not None and switch.reason == REFUSES:
            message = gettext("It refused a hundred calls in a row; new payments are refused until it grants access.")
            return ProviderStatus.SWITCHED_OFF, switch.changed_at, message
        if switch is not None:
            return (
                ProviderStatus.SWITCHED_OFF,
                switch.changed_at,
                gettext("Switched off by the operator: %(reason)s.", reason=switch.reason),
            )
        share = 1.0 if sums.good_share is None else sums.good_share
        if self._providers.is_connection_away(provider):
            message = gettext("It does not answer our calls; new payments are refused until it does.")
            if sums.is_refused:
                message = gettext("It refuses our calls; new payments are refused until it takes them.")
            elif (last := sums.last_error or "") in UNREACHED.values():
                why = gettext(last)
                message = gettext("We do not reach it: %(why)s; new payments are refused until we do.", why=why)
            return ProviderStatus.UNAVAILABLE, sums.trouble_since, message
        has_enough_calls = sums.total >= _FEWEST_CALLS
        if (has_enough_calls and share < _GOOD_SHARE) or share <= 0:
            message = gettext(
                "%(failed)s of our last %(total)s calls failed; payments may take longer.",
                failed=sums.failed + sums.unanswered,
                total=sums.total,
            )
            is_away = has_enough_calls and share < _AWAY_SHARE
            return ProviderStatus.UNAVAILABLE if is_away else ProviderStatus.DEGRADED, sums.trouble_since, message
        if provider.draining:
            return ProviderStatus.AVAILABLE, None, gettext("It takes no new payments and finishes its own.")
        return ProviderStatus.AVAILABLE, None, gettext("It answers our calls.")


class OutageWatch:
    """Compares the state of each provider with the last one that was recorded."""

    def __init__(self, runtime: Runtime, states: ProviderStateService) -> None:
        self._outbox = runtime.mail_outbox
        self._states = states
        self._providers, self._switches = runtime.providers, runtime.switches
        self._clock = runtime.clock

    def look(self) -> None:
        """Record the providers that went away or came back since the last check by any worker.

        Of one that is switched off nothing new is known. One that keeps refusing is switched off here.
        """
        for connection in self._providers.connections:
            self._switches.follow_refusals(connection)
        kept = {row.account: row.away_since is not None for row in ProviderAccount.select()}
        # Of an account with several connections, the one that takes new payments.
        states = {state.account: state for state in reversed(self._states.list(operator_context()))}
        for state in states.values():
            is_away = state.status is ProviderStatus.UNAVAILABLE
            # A provider whose float was never queried has no row yet.
            is_known = state.account in kept and state.status is not ProviderStatus.SWITCHED_OFF
            if is_known and kept[state.account] is not is_away:
                self._record(state, is_away)

    def _record(self, state: OperatorProviderState, is_away: bool) -> None:
        with unit_of_work():
            row, now = lock_row(ProviderAccount, state.account), self._clock.now()
            if (row.away_since is not None) is is_away:
                # Another worker has recorded it first.
                return
            row.change(away_since=now if is_away else None)
            write_audit_event(
                "provider.away" if is_away else "provider.back",
                automatic_context(),
                now,
                client_id=None,
                object_id=row.account,
                is_automatic=True,
                reason=state.message,
            )
            _notify(state, is_away, self._outbox, now)


def _notify(state: OperatorProviderState, is_away: bool, outbox: MailOutbox, now: datetime) -> None:
    """Write mails to operators, one of each an hour for a provider that comes and goes."""
    said = state.last_error if is_away and is_cause(state.last_error or "") else None
    away = marked("does not answer")
    if said:
        away = marked("refuses our calls") if is_refusal(said) else marked("is not reached")
    about = {
        "provider": title_of_account(state.account, state.provider),
        "state": away if is_away else marked("answers again"),
        "said": f"{said}\n\n" if said else "",
        "at": written_moment(now),
        "page": "/console/operator/providers",
        "consequence": marked("New payments there are refused until it answers." if is_away else "Payments go on."),
    }
    kind = MailKind.PROVIDER_AWAY
    occasion = f"{kind}/{state.account}/{is_away}/{now:%Y-%m-%dT%H}"
    outbox.notify_operators(kind, about, now, occasion=occasion)
