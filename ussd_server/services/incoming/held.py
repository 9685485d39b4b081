"""Held payments: listed with suggestions, assigned or marked for return by two operators."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.incoming import IncomingPayment, PaymentCode, waits_for_operators
from ussd_server.models.transactions import ReceiptClaim, Transaction
from ussd_server.services.gates.receipts import WayIn, lock_receipt, take_receipt
from ussd_server.services.incoming import booking
from ussd_server.services.incoming.codes import canonical, prefix_of
from ussd_server.services.incoming.messages import (
    AssignIncoming,
    HeldLikeOwn,
    HoldDifference,
    IncomingStatus,
    IncomingView,
    PaymentCodeView,
    ReturnIncoming,
    SameIncoming,
)
from ussd_server.services.operator_names import require_name, require_two_names, require_two_people
from ussd_server.services.pages import count_rows, find_by_id, page_of, require_row
from ussd_server.services.reconciliation.cell_values import phone_number_in
from ussd_server.services.reconciliation.differences import DifferenceService
from ussd_server.services.reconciliation.imports import lock_imports
from ussd_server.services.reconciliation.messages import DifferenceView, EndDifference, Verdict
from ussd_server.services.runtime import Runtime
from ussd_server.services.signatures import sign_row
from ussd_server.services.transactions.messages import Source
from ussd_server.status import Code, ServiceError
from ussd_server.values import canonical_receipt, written_amount
from ussd_server.wire import ListPage, Page, view_of_row

_MOST_SUGGESTED = 3
_MOST_COMPARED = 500
_LETTERS = string.ascii_uppercase + string.digits
_LONGEST_CODE = 20
_LONGEST_RECEIPT = 48


class HeldPaymentService:
    """Lists held payments and ends them, for operators only."""

    def __init__(self, runtime: Runtime, book: booking.IncomingBook, differences: DifferenceService) -> None:
        self._clock, self._tokens, self._vault = runtime.clock, runtime.tokens, runtime.vault
        self._book = book
        self._differences = differences

    def list(self, request: ListPage, context: RequestContext) -> Page[IncomingView]:
        """A page of held payments, newest first. INVALID_REQUEST for a cursor of another list."""
        context.require_operator()
        rows = IncomingPayment.select().where(waits_for_operators())
        return page_of(rows, IncomingPayment, request, self._tokens, lambda payments: map(_view, payments))

    def list_alike(self, context: RequestContext) -> tuple[HeldLikeOwn, ...]:
        """The newest held payments whose code begins with the client's prefix, or is one slip from a code of theirs."""
        context.require("collection:read")
        prefix = prefix_of(context.client_id)
        if prefix is None:
            return ()
        beginnings = (prefix, *_with_one_slip(prefix))
        held = IncomingPayment.select().where(waits_for_operators(), IncomingPayment.code.is_null(False))
        views = []
        for row in held.order_by(IncomingPayment.id.desc()).limit(_MOST_COMPARED):
            typed = canonical(row.code or "")
            if not typed.startswith(beginnings):
                continue
            own = PaymentCode.client_id == context.client_id
            meant = tuple(each.code for each in _similar(typed, row.amount_cents, own))
            if meant or typed.startswith(prefix):
                views.append(view_of_row(HeldLikeOwn, row, meant=meant))
        return tuple(views)

    def count(self, context: RequestContext) -> int:
        """How many payments are held, 10,000 at most."""
        context.require_operator()
        return count_rows(IncomingPayment.select().where(waits_for_operators()))

    def show(self, incoming_id: str, context: RequestContext) -> IncomingView:
        """One incoming payment. NOT_FOUND."""
        context.require_operator()
        return _view(_found(incoming_id, locked=False))

    def find(self, provider: str, receipt: str, context: RequestContext) -> IncomingView | None:
        context.require_operator()
        row = IncomingPayment.get_or_none(provider=provider, provider_transaction_id=receipt)
        return _view(row) if row else None

    def assign(self, request: AssignIncoming, context: RequestContext) -> IncomingView:
        """Book a held payment under a payment code, whatever amount and time the code says; the audit trail shows it.

        NOT_FOUND for an unknown payment or code. INVALID_REQUEST for a payment that is not held, for a receipt that a
        payment of ours has, and unless two different people are named.
        """
        context.require_operator()
        names = require_two_names(request.by, request.second)
        with unit_of_work():
            row, code = _assignable(request.incoming_id, request.code)
            row.decided_by = ", ".join(names)
            self._book.book(row, code, WayIn.ASSIGNMENT, Source.OPERATOR, context)
            sign_row(self._vault, IncomingPayment, row.id)
            reason = f"Receipt {row.provider_transaction_id}, assigned to {code.code}"
            booking.write_payment_event("transaction.assigned", row, context, reason, code.client_id)
        return _view(row)

    def take_as_same(self, request: SameIncoming, context: RequestContext) -> IncomingView:
        """Give the receipt of a held payment to the collection that it waits for: both are the same money.

        NOT_FOUND. INVALID_REQUEST for a payment that is not held or waits for no collection that succeeded without a
        receipt, and unless two different people are named.
        """
        context.require_operator()
        names = require_two_names(request.by, request.second)
        now = self._clock.now()
        with unit_of_work():
            waits_for = _found(request.incoming_id, locked=False).waits_for
            # Before the claim of its receipt, as the processing of payments locks them.
            collection = lock_row(Transaction, waits_for) if waits_for else None
            row, claim = _held(request.incoming_id)
            written = row.provider_transaction_id
            if collection is None or not take_receipt(collection, claim, written, WayIn.SAME_PAYMENT, now):
                raise ServiceError(Code.INVALID_REQUEST, "It waits for no collection that succeeded without a receipt")
            row.decided_by = ", ".join(names)
            self._book.mark_booked(row, collection.id)
            reason = f"Receipt {row.provider_transaction_id} is that of the collection"
            booking.write_payment_event("transaction.receipt_given", row, context, reason, collection.client_id)
        return _view(row)

    def require_assignable(
        self, incoming_id: str, code: str, context: RequestContext
    ) -> tuple[IncomingView, PaymentCodeView, str]:
        """A held payment, the code that it can be booked under now, and the code's client. Raises as `assign`."""
        context.require_operator()
        row, code_row = _assignable(incoming_id, code)
        return _view(row), view_of_row(PaymentCodeView, code_row), code_row.client_id

    def mark_returned(self, request: ReturnIncoming, context: RequestContext) -> IncomingView:
        """Mark a held payment for return: the operator gives it back at the provider, outside of this service.

        NOT_FOUND, and INVALID_REQUEST for a payment that is not held, for a receipt that a payment of ours has, and
        unless two different people are named with a reason.
        """
        context.require_operator()
        names = require_two_people(request.by, request.second, request.reason)
        with unit_of_work():
            row, _ = _held(request.incoming_id, may_contradict=True)
            row.waits_for = None
            row.status, row.reason, row.decided_by = IncomingStatus.RETURNED, request.reason.strip(), ", ".join(names)
            row.updated_at = self._clock.now()
            row.save()
            sign_row(self._vault, IncomingPayment, row.id)
            booking.write_payment_event("incoming.returned", row, context, row.reason)
        return _view(row)

    def require_held(self, incoming_id: str, context: RequestContext) -> IncomingView:
        """A held payment, locked. Raises NOT_FOUND, and INVALID_REQUEST for one that is not held."""
        context.require_operator()
        return _view(_held(incoming_id, may_contradict=True)[0])

    def hold(self, request: HoldDifference, context: RequestContext) -> IncomingView:
        """Hold a statement's credit that no transaction of ours matches, and end the review of the difference.

        A receipt that the provider reported by now stays as it is. NOT_FOUND, and INVALID_REQUEST for a difference
        that is no such credit, that has no receipt or that has ended, and where the provider reported another amount.
        """
        context.require_operator()
        by, now = require_name(request.by), self._clock.now()
        with unit_of_work():
            # Before the claim, as for payments that are set to succeeded from a statement.
            lock_imports()
            difference = self._differences.show(request.difference_id, context)
            receipt, amount_cents = _credit_of(difference)
            row, claim, is_new = booking.lock_incoming(
                difference.provider,
                receipt,
                now,
                amount_cents=amount_cents,
                phone_number=phone_number_in(difference.party or ""),
                held_because=f"The provider did not report it; it is a line of {difference.file_name}",
                difference_id=difference.difference_id,
            )
            if row.amount_cents != amount_cents:
                reported, stated = written_amount(row.amount_cents), written_amount(amount_cents)
                raise ServiceError(
                    Code.INVALID_REQUEST,
                    f"The provider reported {reported} under this receipt, and the statement has {stated}",
                )
            if is_new:
                # It may be booked under another way of writing the receipt.
                self._book.book_as_collection(row, booking.collection_of(row, claim))
            self._differences.end(EndDifference(difference.difference_id, f"Incoming payment {row.id}", by), context)
        return _view(row)


def _credit_of(difference: DifferenceView) -> tuple[str, int]:
    """Receipt and cents of a credit that no transaction matches. INVALID_REQUEST for any other difference."""
    receipt, cents = difference.provider_id, difference.theirs
    is_credit = difference.verdict is Verdict.NOT_OURS and isinstance(cents, int) and cents > 0
    is_named = receipt is not None and bool(canonical_receipt(receipt)) and len(receipt) <= _LONGEST_RECEIPT
    if not is_credit or difference.transaction_id is not None or not is_named:
        raise ServiceError(Code.INVALID_REQUEST, "Only a credit with a receipt that is not ours can be held")
    assert isinstance(cents, int)
    assert receipt is not None
    return receipt, cents


def _found(incoming_id: str, *, locked: bool) -> IncomingPayment:
    rows = IncomingPayment.select()
    return find_by_id(for_update(rows) if locked else rows, IncomingPayment, incoming_id, "Incoming payment")


def _held(incoming_id: str, *, may_contradict: bool = False) -> tuple[IncomingPayment, ReceiptClaim]:
    """A held payment and the claim of its receipt, both locked.

    `may_contradict`: its receipt may be that of a payment of another amount, or that was reported under its other
    receipt, which leaves operators to end it.
    """
    # The claim of a receipt is locked before its incoming payment.
    unlocked = _found(incoming_id, locked=False)
    claim = lock_receipt(unlocked.provider, unlocked.provider_transaction_id)
    row = _found(incoming_id, locked=True)
    if row.status != IncomingStatus.HELD:
        raise ServiceError(Code.INVALID_REQUEST, f"The payment is {row.status}, no longer held")
    collection = booking.collection_of(row, claim)
    is_booked = collection is not None and collection.amount_cents == row.amount_cents and claim.incoming_id == row.id
    if collection is not None and (is_booked or not may_contradict):
        raise ServiceError(Code.INVALID_REQUEST, f"{booking.OWN_RECEIPT}: transaction {collection.id}")
    return row, claim


def _assignable(incoming_id: str, typed: str) -> tuple[IncomingPayment, PaymentCode]:
    row, _ = _held(incoming_id)
    return row, require_row(booking.find_code(typed, locked=True), "Payment code")


def _suggestions(row: IncomingPayment) -> tuple[str, ...]:
    """Up to three codes that are as typed, or differ by one slip: a wrong, missing, doubled or exchanged letter.

    The typed code is first, then come those that take the amount.
    """
    return tuple(code.code for code in _similar(canonical(row.code or ""), row.amount_cents))


def _similar(typed: str, amount_cents: int, *conditions: Any) -> list[PaymentCode]:
    if not 1 < len(typed) <= _LONGEST_CODE:
        return []
    codes = PaymentCode.select().where(PaymentCode.code.in_({typed, *_with_one_slip(typed)}), *conditions)
    ordered = sorted(
        codes, key=lambda code: (code.code != typed, not booking.takes_amount(code, amount_cents), code.code)
    )
    return ordered[:_MOST_SUGGESTED]


def _with_one_slip(typed: str) -> Iterator[str]:
    for index in range(len(typed) + 1):
        before, after = typed[:index], typed[index:]
        for letter in _LETTERS:
            yield f"{before}{letter}{after[1:]}"
            yield f"{before}{letter}{after}"
        if after[:1] == before[-1:]:
            yield f"{before}{after[1:]}"
        if len(after) > 1:
            yield f"{before}{after[1]}{after[0]}{after[2:]}"


def _view(row: IncomingPayment) -> IncomingView:
    suggestions = _suggestions(row) if row.status == IncomingStatus.HELD else ()
    return view_of_row(IncomingView, row, incoming_id=row.id, suggestions=suggestions)
