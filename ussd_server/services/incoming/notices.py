"""Checks and notices of providers about payments that payers make by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from ussd_server.context import RequestContext, automatic_context
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.movements import IN, Movement
from ussd_server.models.transactions import Transaction
from ussd_server.outbound.signature import is_signed
from ussd_server.services.gates.held import BOTH_AMOUNTS, ONLY_IN_STATEMENT, hold
from ussd_server.services.gates.messages import Told, WayIn
from ussd_server.services.gates.movements import find_or_make
from ussd_server.services.gates.receipts import lock_amount, lock_movement
from ussd_server.services.gates.uses import is_told_by
from ussd_server.services.incoming import booking
from ussd_server.services.incoming.messages import (
    CheckPayment,
    IncomingPaths,
    NoticeStatus,
    NotifiedPayment,
    NotifyPayment,
    PaymentCheck,
)
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import MailOutbox
from ussd_server.services.processing.outcomes import open_review
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import Source
from ussd_server.status import Code, ServiceError
from ussd_server.values import kampala_day, written_amount

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
        """The path and the signing secret of every account, for the operator to register at its provider."""
        context.require_operator()
        return [
            IncomingPaths(
                account,
                self._tokens.incoming_path(account),
                self._tokens.incoming_signing_secrets(account)[-1],
            )
            for account in sorted(self._providers.accounts)
        ]

    def require_path(self, account: str, secret: str) -> None:
        """Raise NOT_FOUND for an unknown path."""
        if account not in self._providers.accounts or not self._tokens.is_incoming_secret(account, secret):
            raise ServiceError(Code.NOT_FOUND, "Not found")

    def require_signature(self, account: str, headers: Mapping[str, str], body: bytes) -> None:
        """Raise INVALID_CREDENTIALS unless the provider signed a notice within five minutes."""
        if not is_signed(headers, body, self._tokens.incoming_signing_secrets(account), self._clock.now()):
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

        A repeat books what is still held, if it fits by now; one with another amount opens a review of what is booked,
        what is held stays so until operators end it, and they are told of one that they ended. SERVICE_UNAVAILABLE
        while the operator holds new money.
        """
        now = self._clock.now()
        told = Told(
            WayIn.NOTICE,
            request.account,
            IN,
            request.amount_cents,
            request.provider_transaction_id,
            request.phone_number,
            request.at,
        )
        with unit_of_work():
            money = find_or_make(told, now, code=request.code, name=request.name)
            payment, movement = money.payment, money.movement
            if movement is not None and movement.use_kind is None:
                self._take_notice(movement, request, context, now)
                if money.is_new and movement.use_kind is None and movement.waits_for is None:
                    _report_held(movement, self._outbox, context, now)
            elif movement is not None and movement.transaction_id is not None:
                payment = lock_row(Transaction, movement.transaction_id)
            elif movement is not None and request.amount_cents not in (
                movement.amount_cents,
                movement.other_amount_cents,
            ):
                movement.other_amount_cents = request.amount_cents
                movement.save()
                _report_held(movement, self._outbox, context, now)
            if payment is None:
                booked_id = None if movement is None else movement.transaction_id
            else:
                booked_id = _confirmed(payment, request.amount_cents, now)
        if booked_id is None:
            return NotifiedPayment(None, NoticeStatus.HELD)
        return NotifiedPayment(booked_id, NoticeStatus.BOOKED)

    def decide_waiting(self) -> int:
        """Decide movements whose payment has become final; return how many. The worker calls it."""
        if self._is_money_held:
            return 0
        is_final = Transaction.completed_at.is_null(False)
        waiting = (
            Movement.select()
            .join(Transaction, on=(Transaction.id == Movement.waits_for))
            .where(Movement.waits_for.is_null(False), is_final)
            .limit(_DECIDED_AT_ONCE)
        )
        movements = list(waiting)
        for each in movements:
            self._decide_waiting(each)
        return len(movements)

    def _decide_waiting(self, unlocked: Movement) -> None:
        now, context = self._clock.now(), automatic_context()
        with unit_of_work():
            lock_amount(unlocked.account, unlocked.direction, unlocked.amount_cents)
            movement = lock_movement(unlocked)
            if movement.use_kind is None and movement.waits_for is not None:
                self._book_or_hold(movement, context, now)
                if movement.use_kind is None and movement.waits_for is None:
                    _report_held(movement, self._outbox, context, now)

    def _take_notice(self, movement: Movement, request: NotifyPayment, context: RequestContext, now: datetime) -> None:
        """Book a held movement if it fits, else say why it is held."""
        if movement.amount_cents != request.amount_cents:
            movement.other_amount_cents = request.amount_cents
        else:
            movement.code, movement.name = request.code, request.name
            movement.phone_number = request.phone_number or movement.phone_number
        movement.at = movement.at or request.at or now
        self._book_or_hold(movement, context, now)

    def _book_or_hold(self, movement: Movement, context: RequestContext, now: datetime) -> None:
        code = booking.find_code(movement.code or "", locked=True)
        misfit = booking.misfit_of(code, movement.amount_cents, now, movement.at)
        if not is_told_by(movement, WayIn.NOTICE):
            misfit = ONLY_IN_STATEMENT
        is_held = hold(movement, misfit, now, None if code is None else code.client_id)
        if not is_held and code is not None:
            self._book.book(movement, code, Source.CALLBACK, context)


def _confirmed(payment: Transaction, amount_cents: int, now: datetime) -> str | None:
    """The id of a payment that has the money of a notice; None, and a review, where the notice has another amount."""
    if payment.amount_cents == amount_cents:
        return str(payment.id)
    reason = _TWO_AMOUNTS.format(written_amount(amount_cents))
    if payment.review_reason != reason:
        open_review(payment, reason, now)
        payment.save()
    return None


def _report_held(movement: Movement, outbox: MailOutbox, context: RequestContext, now: datetime) -> None:
    """Add a held movement, or a used one of two amounts, to the audit trail, and write operators a mail, one a day."""
    reason = movement.held_because or BOTH_AMOUNTS
    booking.write_movement_event("incoming.held", movement, context, reason, is_automatic=True)
    about: dict[str, str | None] = {"provider": movement.account, "amount": written_amount(movement.amount_cents)}
    about |= {"reason": reason, "page": "/console/operator/movements"}
    outbox.notify_operators(MailKind.INCOMING_HELD, about, now, occasion=f"incoming-held/{kampala_day(now)}")
