"""Sending of payouts by the background worker: rows become transactions at the pace of their providers.

A row becomes a transaction when it is about to be sent (`attempts.py`), which is settled like any other
(`processing/processor.py`), so a row is sent once, also when a worker is killed. The rows of a disabled client wait.
Before the approval, the worker looks up the names that are registered for the phone numbers. What was approved for a
later date is reserved when it is due (`approval/approval.py`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from ussd_server.database.tables import find_row, lock_row
from ussd_server.database.unit_of_work import DATABASE_ERRORS, unit_of_work
from ussd_server.logs import Logger, now_about, trace_of
from ussd_server.models.clients import is_client_active
from ussd_server.models.payouts import Payout, PayoutItem
from ussd_server.providers.messages import ANY_NAME, Registration
from ussd_server.services.leases import end_lease, is_due
from ussd_server.services.payouts.approval.approval import PayoutApproval
from ussd_server.services.payouts.approval.withdrawals import PayoutWithdrawals
from ussd_server.services.payouts.attempts import is_under_way, make_attempts, room_at
from ussd_server.services.payouts.drafts.name_match import compare_names
from ussd_server.services.payouts.holds import waiting_providers
from ussd_server.services.payouts.messages import NameMatch, PayoutStatus
from ussd_server.services.payouts.records import complete
from ussd_server.services.providers.subscribers import SubscriberNames
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.create import TransactionCreator

log = Logger(__name__)

_LEASE_SECONDS = 60
_TICK_SECONDS = 0.25
_PROVIDER_AWAY_SECONDS = 2.0
_LONGEST_REST_SECONDS = 30.0
_NAMES_AT_ONCE = 5
_NAME_TIMEOUT_SECONDS = 5.0
_NAMES_WANTED_FOR = timedelta(hours=1)
_NAMES_AWAY_SECONDS = 10.0


class PayoutSender:
    """Advances payouts: looks up names for drafts, makes the attempts of approved ones, and completes them."""

    def __init__(self, runtime: Runtime, names: SubscriberNames, creator: TransactionCreator) -> None:
        self._outbox = runtime.mail_outbox
        self._clock, self._providers, self._leases = runtime.clock, runtime.providers, runtime.leases
        self._within_rate, self._wake_worker = runtime.within_rate, runtime.wake_up.send
        self._approval, self._creator = PayoutApproval(runtime, creator.gate), creator
        self._withdrawals = PayoutWithdrawals(runtime)
        self._names, self._gate = names, creator.gate

    def claim(self, limit: int) -> list[str]:
        """Lease up to `limit` payouts that are due to this caller; return their ids.

        Of those that changed the longest ago, so that one for which there was no room comes before those that had some.
        """
        due = Payout.select(Payout.id).where(is_due(Payout, self._clock.now())).order_by(Payout.updated_at)
        return [row.id for row in self._leases.claim(due.limit(limit), _LEASE_SECONDS)]

    def advance(self, payout_id: str) -> None:
        """Advance a claimed payout one step."""
        row = find_row(Payout, payout_id)
        now_about(request_id=row.request_id, traceparent=row.traceparent)
        if row.status in (PayoutStatus.APPROVED, PayoutStatus.RUNNING):
            self._withdrawals.withdraw_if_revoked(row.id)
            row = find_row(Payout, payout_id)
        if row.status == PayoutStatus.DRAFT:
            self._match_names(row)
        elif row.status == PayoutStatus.APPROVED and row.reserved_at is None:
            self._approval.reserve_due(row.id)
        else:
            self._send(row.id)

    def _send(self, payout_id: str) -> None:
        made = 0
        with unit_of_work():
            row = lock_row(Payout, payout_id)
            now = self._clock.now()
            is_over = row.due_at is None or row.status == PayoutStatus.DRAFT
            if is_over or (row.send_at is not None and row.send_at > now):
                # Since it was claimed, it ended, or its approval was withdrawn, or given for a later date.
                return
            end_lease(row)
            waiting = waiting_providers(row.id)
            ready = [name for name in waiting if self._providers.takes_payments(name, row.client_id)]
            if ready and (self._gate.is_held or not is_client_active(row.client_id)):
                ready = []
            for name in ready:
                provider = self._providers.get(name, row.client_id)
                assert provider is not None
                room = room_at(provider, self._providers.owners(), row, now)
                made += make_attempts(self._creator, row, provider, room) if room > 0 else 0
            if made:
                row.updated_at = now
                if row.status == PayoutStatus.APPROVED:
                    row.status = PayoutStatus.RUNNING
            if not waiting and not is_under_way(row.id):
                complete(row, self._outbox, now)
            else:
                rest_seconds = _rest_seconds(row, now, is_waiting=bool(waiting), is_ready=bool(ready))
                row.due_at = now + timedelta(seconds=rest_seconds)
                row.save()
        if made:
            self._wake_worker()

    def _match_names(self, row: Payout) -> None:
        """Look up some names, while no database transaction is open, and keep how they compare."""
        unmatched = PayoutItem.select().where(
            PayoutItem.payout_id == row.id, PayoutItem.name.is_null(False), PayoutItem.name_match.is_null()
        )
        items = list(unmatched.where(PayoutItem.is_ready).order_by(PayoutItem.line).limit(_NAMES_AT_ONCE))
        matches = {item.line: match for item in items if (match := self._match(item)) is not None}
        with unit_of_work():
            row = lock_row(Payout, row.id)
            now = self._clock.now()
            end_lease(row)
            for line, (name_match, registered) in matches.items():
                PayoutItem.update(name_match=name_match, registered_name=registered).where(
                    PayoutItem.payout_id == row.id, PayoutItem.line == line
                ).execute()
            if row.status == PayoutStatus.DRAFT:
                pause = _TICK_SECONDS if matches else _NAMES_AWAY_SECONDS
                is_wanted = bool(items) and now - row.updated_at < _NAMES_WANTED_FOR
                row.due_at = now + timedelta(seconds=pause) if is_wanted else None
            row.save()

    def _match(self, item: Any) -> tuple[NameMatch, str | None] | None:
        """How a name compares, and the registered one; None while its provider cannot be asked."""
        registration = self._names.kept(item.phone_number)
        if registration is None:
            provider = self._providers.get(item.provider)
            if provider is None or not self._providers.takes_payments(item.provider):
                return None
            if not self._within_rate(provider.connection):
                return None
            try:
                registration = self._names.query(item.phone_number, _NAME_TIMEOUT_SECONDS)
            except DATABASE_ERRORS:
                raise
            except Exception as error:
                # Do not raise it: the other names would never be looked up.
                log.error("a provider's adapter raised an exception", provider=item.provider, error=trace_of(error))
                registration = Registration()
        registered = item.name if registration.name == ANY_NAME else registration.name
        return compare_names(item.name, registered), registered


def _rest_seconds(row: Payout, now: datetime, *, is_waiting: bool, is_ready: bool) -> float:
    """The pause until the next step: short while rows can be released, else longer the longer nothing has changed."""
    if is_waiting:
        return _TICK_SECONDS if is_ready else _PROVIDER_AWAY_SECONDS
    quiet_seconds: float = (now - row.updated_at).total_seconds()
    return min(max(_TICK_SECONDS, quiet_seconds / 10), _LONGEST_REST_SECONDS)
