"""Checks and notices of providers about payments that payers make by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from ussd_server.context import RequestContext, automatic_context
from ussd_server.database.tables import find_row, lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.incoming import IncomingPayment
from ussd_server.models.transactions import ReceiptClaim, Transaction
from ussd_server.outbound.signature import is_signed
from ussd_server.services.gates.receipts import WayIn
from ussd_server.services.incoming import booking
from ussd_server.services.incoming.messages import (
    CheckPayment,
    IncomingPaths,
    IncomingStatus,
    NotifiedPayment,
    NotifyPayment,
    PaymentCheck,
)
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.processing.outcomes import open_review
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import UNFINISHED, Source, TransactionStatus
from ussd_server.status import Code, ServiceError
from ussd_server.values import kampala_day, written_amount

_MOST_AHEAD = timedelta(minutes=5)
_DECIDED_AT_ONCE = 100
_TWO_AMOUNTS = "the provider reported its receipt again with {}"


class NoticeService:
    """Answers checks, and books what providers report: each receipt once, whatever is repeated."""

    def __init__(self, runtime: Runtime, book: booking.IncomingBook) -> None:
        self._outbox = runtime.mail_outbox
        self._clock, self._tokens, self._providers = runtime.clock, runtime.tokens, runtime.providers
        self._book = book
        self._is_money_held = runtime.settings.hold_money

    def paths(self, context: RequestContext) -> list[IncomingPaths]:
        """The path and the signing secret of every provider that is switched on, for the operator to register there."""
        context.require_operator()
        return [
            IncomingPaths(
                each.name,
                self._tokens.incoming_path(each.name),
                self._tokens.incoming_signing_secrets(each.name)[-1],
            )
            for each in self._providers
        ]

    def require_path(self, provider: str, secret: str) -> None:
        """Raise NOT_FOUND for an unknown path."""
        if self._providers.get(provider) is None or not self._tokens.is_incoming_secret(provider, secret):
            raise ServiceError(Code.NOT_FOUND, "Not found")

    def require_signature(self, provider: str, headers: Mapping[str, str], body: bytes) -> None:
        """Raise INVALID_CREDENTIALS unless the provider signed a notice within five minutes."""
        if not is_signed(headers, body, self._tokens.incoming_signing_secrets(provider), self._clock.now()):
            raise ServiceError(Code.INVALID_CREDENTIALS, "The signature is wrong, missing or older than five minutes")

    def check(self, request: CheckPayment) -> PaymentCheck:
        """Whether a payment would be taken, and who is paid."""
        code = booking.find_code(request.code)
        misfit = booking.misfit_of(code, request.amount_cents, self._clock.now())
        if code is None or misfit is not None:
            return PaymentCheck(False, None, f"{misfit}.")
        return PaymentCheck(True, Client.get_by_id(code.client_id).name, code.description)

    def notify(self, request: NotifyPayment, context: RequestContext) -> NotifiedPayment:
        """Book a payment under its code, or hold it for the operators; a repeat changes nothing.

        A repeat books what is still held, if it fits by now; one with another amount opens a review of what is booked.
        SERVICE_UNAVAILABLE while the operator holds new money.
        """
        now = self._clock.now()
        with unit_of_work():
            row, claim, is_new = booking.lock_incoming(
                request.provider, request.provider_transaction_id, now, amount_cents=request.amount_cents
            )
            if row.status == IncomingStatus.HELD:
                self._take_notice(row, claim, request, context, now)
                if is_new and _waits_for_operators(row):
                    _report_held(row, self._outbox, context, now)
            is_booked = row.status == IncomingStatus.BOOKED
            if is_booked and row.amount_cents != request.amount_cents:
                _open_review(row, request.amount_cents, now)
                is_booked = False
        if not is_booked:
            return NotifiedPayment(None, IncomingStatus.HELD)
        return NotifiedPayment(row.transaction_id, IncomingStatus.BOOKED)

    def decide_waiting(self) -> int:
        """Decide held payments whose collection has become final; return how many. The worker calls it."""
        if self._is_money_held:
            return 0
        is_final = Transaction.completed_at.is_null(False) & (
            (Transaction.status == TransactionStatus.FAILED) | Transaction.provider_transaction_id.is_null(False)
        )
        waiting = (
            IncomingPayment.select(IncomingPayment.provider, IncomingPayment.provider_transaction_id)
            .join(Transaction, on=(Transaction.id == IncomingPayment.waits_for))
            .where(IncomingPayment.waits_for.is_null(False), is_final)
            .limit(_DECIDED_AT_ONCE)
        )
        payments = list(waiting)
        for each in payments:
            self._decide_waiting(each)
        return len(payments)

    def _decide_waiting(self, each: IncomingPayment) -> None:
        now, context = self._clock.now(), automatic_context()
        with unit_of_work():
            row, claim, _ = booking.lock_incoming(each.provider, each.provider_transaction_id, now)
            if row.status == IncomingStatus.HELD and row.waits_for is not None:
                self._book_or_hold(row, claim, row.paid_at or now, context, now)
                if _waits_for_operators(row):
                    _report_held(row, self._outbox, context, now)

    def _take_notice(
        self, row: IncomingPayment, claim: ReceiptClaim, request: NotifyPayment, context: RequestContext, now: datetime
    ) -> None:
        """Book the payment if it fits, else say why it is held."""
        if row.amount_cents != request.amount_cents:
            row.change(held_because="It was reported with two amounts", updated_at=now)
            return
        row.code, row.phone_number, row.name = request.code, request.phone_number or row.phone_number, request.name
        row.paid_at = request.at or row.paid_at or now
        self._book_or_hold(row, claim, row.paid_at, context, now)

    def _book_or_hold(
        self, row: IncomingPayment, claim: ReceiptClaim, paid_at: datetime, context: RequestContext, now: datetime
    ) -> None:
        row.waits_for = None
        collection = booking.collection_of(row, claim)
        code = booking.find_code(row.code or "", locked=True)
        misfit = booking.misfit_of(code, row.amount_cents, now)
        if self._book.book_as_collection(row, collection):
            return
        if collection is not None:
            row.held_because = booking.OWN_RECEIPT
            row.waits_for = collection.id if collection.status in UNFINISHED else None
        elif paid_at > now + _MOST_AHEAD:
            row.held_because = "It is dated more than five minutes ahead"
        elif (collection := booking.collection_like(row)) is not None:
            row.held_because = f"It may be what transaction {collection.id} asked for"
            row.waits_for = collection.id
        elif code is not None and misfit is None:
            self._book.book(row, code, WayIn.NOTICE, Source.CALLBACK, context)
            return
        else:
            row.held_because = misfit
        row.updated_at = now
        row.save()


def _waits_for_operators(row: IncomingPayment) -> bool:
    """Whether a payment is held, and the end of a collection will not decide about it."""
    if row.status != IncomingStatus.HELD:
        return False
    return row.waits_for is None or find_row(Transaction, row.waits_for).completed_at is not None


def _open_review(row: IncomingPayment, amount_cents: int, now: datetime) -> None:
    """Open a review of a booked payment that its provider reported again with another amount; once for each amount."""
    booked = lock_row(Transaction, row.transaction_id)
    reason = _TWO_AMOUNTS.format(written_amount(amount_cents))
    if booked.review_reason != reason:
        open_review(booked, reason, now)
        booked.save()


def _report_held(row: IncomingPayment, outbox: MailOutbox, context: RequestContext, now: datetime) -> None:
    """Add a held payment to the operators' audit trail, and write them a mail, one a day."""
    booking.write_payment_event("incoming.held", row, context, row.held_because, is_automatic=True)
    about = {"provider": row.provider, "amount": written_amount(row.amount_cents), "reason": row.held_because}
    about["page"] = "/console/operator/incoming"
    outbox.notify_operators(MailKind.INCOMING_HELD, about, now, occasion=f"incoming-held/{kampala_day(now)}")
