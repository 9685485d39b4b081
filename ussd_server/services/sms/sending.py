"""Sending of messages by the background worker, and the sender's reports on their delivery.

A message is claimed with a lease, marked as asked, sent outside every database transaction, and its result is
written in one. A message that may have reached the sender is never sent again: its recipient must not get it twice. A
report counts for its own message and number only, and only forward.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from peewee import fn

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, release_connection, unit_of_work
from ussd_server.logs import Logger, now_about
from ussd_server.models.clients import Client
from ussd_server.models.sending import Sms
from ussd_server.senders.messages import Sender, SendOutcome, SendResult, SmsFailure
from ussd_server.services.leases import end_lease, is_due, next_attempt, still_leased
from ussd_server.services.processing.messages import Callback, CallbackPath
from ussd_server.services.runtime import Runtime
from ussd_server.services.sms.messages import SmsStatus
from ussd_server.status import Code, ServiceError

log = Logger(__name__)

THREADS = 4
_TIMEOUT_SECONDS = 20.0
_LEASE_SECONDS = 60
_DELAYS_SECONDS = (5, 30, 120, 600)
_PATIENCE = timedelta(hours=6)
# Few messages to one number are sent at the same moment.
_MOST_EARLY_REPORTS = 10

_STATUSES = {
    SendOutcome.SENT: SmsStatus.SENT,
    SendOutcome.DELIVERED: SmsStatus.DELIVERED,
    SendOutcome.FAILED: SmsStatus.FAILED,
    SendOutcome.UNKNOWN: SmsStatus.UNKNOWN,
}


class SmsSending:
    """Sends messages that are due. Any number of processes may share the work."""

    def __init__(self, runtime: Runtime) -> None:
        """Without a sender nothing is claimed."""
        self._clock, self._leases, self._at_kill_point = runtime.clock, runtime.leases, runtime.at_kill_point
        self._sender: Sender | None = runtime.sms_sender

    def claim(self, limit: int) -> list[str]:
        """Lease up to `limit` messages that are due to this caller; give their ids.

        The clients with due messages share `limit`, so that the many messages of one delay no other.
        """
        if self._sender is None or not limit:
            return []
        due = is_due(Sms, self._clock.now())
        waiting = Client.select(Client.id).where(fn.EXISTS(Sms.select(Sms.id).where(Sms.client_id == Client.id, due)))
        clients = [row.id for row in waiting]
        random.shuffle(clients)
        chosen: list[str] = []
        for index, client_id in enumerate(clients[:limit]):
            share = -(-(limit - len(chosen)) // (len(clients) - index))
            oldest = Sms.select(Sms.id).where(Sms.client_id == client_id, due).order_by(Sms.due_at).limit(share)
            chosen += [row.id for row in self._leases.claim(oldest, _LEASE_SECONDS)]
        return chosen

    def send(self, message_id: str) -> None:
        row = Sms.get_or_none(Sms.id == message_id)
        if row is None or row.lease_token is None or self._sender is None:
            return
        now_about(message_id=row.id)
        if row.asked_at is not None:
            # A worker ended between the call and its result.
            self._apply_result(row, SendResult(SendOutcome.UNKNOWN))
            return
        self._at_kill_point("sms.claimed")
        if not self._mark_asked(row):
            return
        release_connection()
        self._at_kill_point("sms.asked")
        result = self._sender.send(row.phone_number, row.text, _TIMEOUT_SECONDS)
        self._at_kill_point("sms.sent")
        self._apply_result(row, result)

    def _mark_asked(self, claimed: Sms) -> bool:
        """Store that the message may leave from now on; False when the lease has ended."""
        with unit_of_work():
            row = still_leased(claimed)
            if row is not None:
                row.change(asked_at=self._clock.now())
        return row is not None

    def _apply_result(self, sent: Sms, result: SendResult) -> None:
        now = self._clock.now()
        with unit_of_work():
            row = still_leased(sent)
            if row is None:
                return
            result = _as_reported(result, row)
            row.attempts += 1
            row.early_reports = None
            end_lease(row)
            if result.outcome is SendOutcome.NOT_SENT:
                _try_again(row, now)
            else:
                row.status, row.due_at = _STATUSES[result.outcome], None
                row.failure_code, row.sender_message_id = result.failure, result.sender_message_id
                row.completed_at = None if result.outcome is SendOutcome.SENT else now
            row.save()
        is_odd = result.outcome in (SendOutcome.NOT_SENT, SendOutcome.UNKNOWN)
        write = log.warning if is_odd or result.failure is SmsFailure.SENDER_REFUSED else log.info
        write("a message was sent", outcome=result.outcome.value, why=result.failure, code=result.reason)


def _as_reported(result: SendResult, row: Sms) -> SendResult:
    """The result of a sending; a delivery report that came before it replaces `SENT`."""
    reports = row.early_reports or {}
    if result.outcome is not SendOutcome.SENT or result.sender_message_id not in reports:
        return result
    failure = reports[result.sender_message_id]
    return replace(result, outcome=SendOutcome.FAILED if failure else SendOutcome.DELIVERED, failure=failure)


def _try_again(row: Sms, now: datetime) -> None:
    """Make a message due later that certainly did not leave, or give it up six hours after its creation."""
    row.asked_at = None
    next_at = next_attempt(row, _DELAYS_SECONDS, now)
    if next_at <= row.created_at + _PATIENCE:
        row.due_at = next_at
    else:
        row.status, row.failure_code = SmsStatus.FAILED, SmsFailure.SENDER_AWAY
        row.due_at, row.completed_at = None, now


class SmsReportService:
    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._tokens = runtime.clock, runtime.tokens
        self._sender = runtime.sms_sender

    def come_from(self, name: str) -> bool:
        """Whether `name` is the sender that is switched on, and reports."""
        return self._sender is not None and self._sender.sends_reports and self._sender.name == name

    def receive(self, callback: Callback) -> None:
        """Store what a report says about a message that was sent. Repeated and contradicting reports change nothing.

        A report of an id that no message has may precede the sender's answer: the messages to its number that are
        being sent keep it, and the one whose answer names the id takes it.

        Raises NOT_FOUND for an unknown path. The sender learns nothing else, not even whether the message exists.
        """
        if self._sender is None or not self._tokens.is_callback_secret(self._sender.name, callback.secret):
            raise ServiceError(Code.NOT_FOUND, "Not found")
        report = self._sender.read_report(callback.body)
        if report is None:
            return
        status = SmsStatus.DELIVERED if report.failure is None else SmsStatus.FAILED
        with unit_of_work():
            # Locked first: a worker stores the answer before this update or after this unit of work.
            being_sent = list(for_update(_being_sent(report.phone_number)))
            update = Sms.update(status=status, failure_code=report.failure, completed_at=self._clock.now()).where(
                Sms.sender_message_id == report.sender_message_id,
                Sms.phone_number == report.phone_number,
                Sms.status == SmsStatus.SENT,
            )
            if update.execute():
                return
            for row in being_sent:
                kept = row.early_reports or {}
                if len(kept) < _MOST_EARLY_REPORTS:
                    row.change(early_reports={report.sender_message_id: report.failure, **kept})

    def paths(self, context: RequestContext) -> list[CallbackPath]:
        """The path of delivery reports, for the operator to register with the sender; none where nothing reports."""
        context.require_operator()
        if self._sender is None or not self._sender.sends_reports:
            return []
        return [CallbackPath(self._sender.name, self._tokens.callback_path(self._sender.name))]


def _being_sent(phone_number: str) -> Any:
    """Messages to a number that may have left and whose answer is not stored, in the order of their locks."""
    to_number = Sms.select(Sms.id, Sms.early_reports).where(Sms.phone_number == phone_number)
    return to_number.where(Sms.asked_at.is_null(False), Sms.due_at.is_null(False)).order_by(Sms.id)
