"""Matches lines of a statement with our transactions, compares each pair, and names what the statement lacks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from peewee import chunked

from ussd_server.models.movements import users_of_receipts
from ussd_server.models.statements import StatementDifference
from ussd_server.models.transactions import Transaction
from ussd_server.providers.statement_format import LineStatus, LineType
from ussd_server.services.gates.given_back import counts_elsewhere
from ussd_server.services.gates.likeness import WITH_TWO_RECEIPTS
from ussd_server.services.reconciliation.comparing.matches import Match, receipt_of, result_of
from ussd_server.services.reconciliation.comparing.other_accounts import OtherAccounts
from ussd_server.services.reconciliation.comparing.our_payments import COLUMNS, OurPayment, payments_within
from ussd_server.services.reconciliation.messages import ComparedLine, Verdict
from ussd_server.services.reconciliation.reading.statement_lines import Period, ProviderLine, StatementDates
from ussd_server.services.transactions.messages import Origin, TransactionType
from ussd_server.values import comparable_receipt, days_about, is_id, with_hyphens

PairsTold = Callable[[str, Collection[str]], Iterator[tuple[str, bytes, datetime]]]
"""What stored statements tell of an account on some days: payments, each with its line's digest and moment."""
_AT_ONCE = 1000


class _ByName(NamedTuple):
    """A line that names a payment of another receipt: its digest, and what it adds to our sum."""

    receipt: bytes
    our_cents: int


class _PutOff(NamedTuple):
    """A line that is compared after all others, with the payments that it names, and the refunds of these."""

    line: ProviderLine
    ours: list[OurPayment]
    refunds: dict[str, list[OurPayment]]


class Matcher:
    """Compares one statement with the transactions of its account.

    A line is matched by the provider's id, then by our reference, never by its amount. A transaction is matched once,
    by a success before a failure: a second success is not ours. A line of another receipt than the payment's, or than
    a statement told it with, is the second one where a stored statement, or another line, has the payment. Memory grows
    by some 100 bytes for each line.
    """

    def __init__(self, account: str, provider: str, dates: StatementDates, pairs_told: PairsTold) -> None:
        """`dates` receive the dates of matched lines."""
        self._account, self.others = account, OtherAccounts(account, provider)
        self._dates, self._pairs_told = dates, pairs_told
        self._matched: set[bytes] = set()
        self._failed: set[bytes] = set()
        self._by_name: dict[bytes, _ByName] = {}
        self._gives_two_receipts = provider in WITH_TWO_RECEIPTS
        # When the payments can have moved that stored statements may tell under another receipt.
        self._days: set[str] = set()
        # Names of lines that left and are not ours: an unsigned reversal of one brings its money back.
        self._left: set[str] = set()
        # Reversals that name a collection alone, with its refunds, or nothing of ours: other lines say what they are.
        self._reversals: list[_PutOff] = []
        # Lines of payments that a statement gave a second receipt: stored lines say which one is the payment's.
        self._of_two_receipts: list[_PutOff] = []
        self._late: dict[int | None, Match] = {}
        self.ours_cents = 0
        self.theirs_cents = 0
        # Receipts that the statement tells first, the last one of each payment, by the payment.
        self.receipts: dict[str, str] = {}

    def compare(self, lines: Sequence[ProviderLine]) -> list[Match]:
        """The results of some lines, in their order; queries the database a few times for all of them."""
        named = self._named_by(lines)
        found = [{name for each in ours for name in (each.id, each.provider_reference)} for ours in named]
        self.others.note(lines, found)
        refunds = self._refunds_of(lines, named)
        matches = []
        for line, ours in zip(lines, named, strict=True):
            if line.type is LineType.REVERSAL and all(refunds.get(each.id) for each in ours):
                matches.append(_put_off(_PutOff(line, ours, refunds), self._reversals, Verdict.REVERSAL))
            elif line.type in (LineType.IN, LineType.OUT) and any(map(self._is_told_twice, ours)):
                for each in ours:
                    self._days |= days_about(each.created_at, each.completed_at or line.at)
                matches.append(_put_off(_PutOff(line, ours, refunds), self._of_two_receipts, Verdict.NOT_OURS))
            else:
                matches.append(self._match(line, ours, refunds))
        return matches

    def end(self) -> None:
        """Decide which line of a payment is the second one. Call after every line was compared, before `decide`."""
        unclear = {name for each in self._reversals if not each.ours for name in _names_of(each.line)}
        for names in chunked(unclear - self._left, _AT_ONCE):
            self._left |= _names_that_left(self._account, names)
        self._late = {each.line.line: self._match(*each) for each in self._reversals}
        told = {ours.id: set[bytes]() for each in self._of_two_receipts for ours in each.ours}
        for payment_id, receipt, _ in self._pairs_told(self._account, self._days) if self._days else ():
            if payment_id in told:
                told[payment_id].add(receipt)
            named = self._by_name.get(_key(payment_id))
            if named is not None and named.receipt != receipt:
                self._no_longer_named(payment_id)
        # A line that a stored statement has is the payment's own; any other line of it is another payment.
        for each in sorted(self._of_two_receipts, key=lambda each: not _is_told_again(each, told)):
            if not _is_told_again(each, told):
                self._matched |= {_key(ours.id) for ours in each.ours if told[ours.id]}
            self._late[each.line.line] = self._match(*each)

    def decide(self, match: Match) -> ComparedLine:
        """The final result of a line; call once for each, in their order, after `end`."""
        match = self._late.get(match.compared.line, match)
        compared = match.compared
        if match.is_by_name and _key(compared.transaction_id or "") not in self._by_name:
            verdict = Verdict.REVERSAL if compared.verdict is Verdict.REVERSAL else Verdict.NOT_OURS
            return replace(compared, verdict=verdict, ours=None, theirs=compared.moved_cents, is_difference=True)
        if match.unmoved is None:
            return compared
        key = _key(compared.transaction_id or "")
        if key in self._matched or (match.unmoved is LineStatus.PENDING and key in self._failed):
            # Another line reports how this payment ended.
            return replace(compared, verdict=Verdict.MATCHED, ours=None, theirs=None, is_difference=False)
        self._matched.add(key)
        self.ours_cents += match.our_cents
        return compared

    def missing(self, period: Period) -> Iterator[ComparedLine]:
        """The results for what succeeded here within the period and has no line.

        What was under way at an end of it, and a stored statement dates beyond that end, is not missing.
        """
        at_ends: dict[str, OurPayment] = {}
        for ours, is_inside in payments_within(self._account, period):
            if _key(ours.id) in self._matched:
                continue
            if is_inside:
                yield self._missing(ours)
            else:
                at_ends[ours.id] = ours
        days = days_about(period.first, period.first) | days_about(period.last, period.last)
        for payment_id, _, at in self._pairs_told(self._account, days) if at_ends else ():
            if not period.first <= at <= period.last:
                at_ends.pop(payment_id, None)
        yield from map(self._missing, at_ends.values())

    def _missing(self, ours: OurPayment) -> ComparedLine:
        self.ours_cents += ours.signed_cents
        return result_of(None, Verdict.NOT_THEIRS, ours, ours.signed_cents, None, is_difference=True)

    def _named_by(self, lines: Sequence[ProviderLine]) -> list[list[OurPayment]]:
        """Our transactions that each line names, by the provider's id and by our reference (or our id)."""
        ids = {line.provider_id for line in lines if line.provider_id}
        references = {each for line in lines if is_id(each := with_hyphens(line.reference))}
        by_id: dict[str, list[OurPayment]] = defaultdict(list)
        for ours in self._select(Transaction.provider_transaction_id, ids):
            by_id[ours.provider_transaction_id or ""].append(ours)
        for ours in self._select(Transaction.provider_receipt, ids):
            by_id[ours.provider_receipt or ""].append(ours)
        for ours, written in self._with_receipts(ids - by_id.keys()):
            by_id[written].append(ours)
        by_reference = {ours.id: ours for ours in self._select(Transaction.id, references)}
        by_reference |= {
            ours.provider_reference or "": ours for ours in self._select(Transaction.provider_reference, references)
        }
        return [
            [*by_id.get(line.provider_id, ()), *filter(None, [by_reference.get(with_hyphens(line.reference))])]
            for line in lines
        ]

    def _with_receipts(self, ids: Collection[str]) -> Iterator[tuple[OurPayment, str]]:
        """Our transactions whose receipts the provider has written in another way."""
        if not ids:
            return
        written = defaultdict(list)
        for each in ids:
            written[comparable_receipt(each)].append(each)
        users = users_of_receipts(written.keys(), self._account).tuples()
        owners = [(str(transaction_id), receipt) for transaction_id, receipt in users]
        payments = {ours.id: ours for ours in self._select(Transaction.id, dict(owners))}
        for transaction_id, receipt in owners:
            if (ours := payments.get(transaction_id)) is not None:
                yield from ((ours, each) for each in written[receipt])

    def _refunds_of(
        self, lines: Sequence[ProviderLine], named: Sequence[Sequence[OurPayment]]
    ) -> dict[str, list[OurPayment]]:
        """Our refunds of the collections that reversals name, by the collection."""
        collections = {
            ours.id
            for line, payments in zip(lines, named, strict=True)
            if line.type is LineType.REVERSAL
            for ours in payments
            if ours.type == TransactionType.COLLECTION
        }
        refunds: dict[str, list[OurPayment]] = defaultdict(list)
        for ours in self._select(Transaction.refund_of, collections):
            refunds[ours.refund_of or ""].append(ours)
        return refunds

    def _select(self, column: Any, values: Collection[str]) -> list[OurPayment]:
        if not values:
            return []
        rows: Any = Transaction.select(*COLUMNS).where(
            column.in_(list(values)), Transaction.provider_account == self._account, ~counts_elsewhere()
        )
        # The last one of a name, because those before it were never sent.
        return [OurPayment(*row) for row in rows.order_by(Transaction.id).tuples().iterator()]

    def _match(self, line: ProviderLine, named: list[OurPayment], refunds: dict[str, list[OurPayment]]) -> Match:
        before = self.theirs_cents
        match = self._compare(line, named, refunds)
        compared = replace(match.compared, moved_cents=self.theirs_cents - before)
        return replace(match, compared=compared, at=line.at, receipt=receipt_of(line))

    def _compare(self, line: ProviderLine, named: list[OurPayment], refunds: dict[str, list[OurPayment]]) -> Match:
        if line.type is LineType.FEE:
            theirs_cents = line.direction * line.amount_cents
            return Match(result_of(line, Verdict.FEE, named[0] if named else None, None, theirs_cents))
        if line.type is LineType.REVERSAL:
            # What left comes back; what came is given back.
            has_left = (
                all(ours.direction < 0 for ours in named) if named else not self._left.isdisjoint(_names_of(line))
            )
            direction = 1 if has_left else -1
            # Airtel gives a refund the id of the payment that it gives back.
            named = [
                refund
                for ours in named
                for refund in (refunds.get(ours.id, ()) if ours.type == TransactionType.COLLECTION else (ours,))
                if refund is ours or _may_be_refund(refund, ours, line)
            ] or named
            return self._compare_reversal(line, named, direction)
        # What operators booked instead of a payment has its receipt, too, and so has what they booked of its way back.
        named = [ours for ours in named if ours.type != TransactionType.CORRECTION or ours.direction == line.direction]
        candidates = [ours for ours in named if ours.type != TransactionType.REFUND] or named
        candidates.sort(key=lambda ours: not _is_correction_of(line, ours))
        ours = self._first_open(candidates, line)
        second = candidates[0] if candidates else None
        if ours is None and (second is None or line.status is LineStatus.SUCCEEDED):
            theirs_cents = self._count_theirs(line, line.direction)
            if theirs_cents < 0:
                self._left |= _names_of(line)
            return Match(result_of(line, Verdict.NOT_OURS, second, None, theirs_cents, is_difference=True))
        matched, last = ours or candidates[0], candidates[-1]
        has_succeeded = line.status is LineStatus.SUCCEEDED and last.standing is LineStatus.SUCCEEDED
        if last is not matched and has_succeeded and not _has_receipt(last, line):
            # The line has its name, and the receipt of another one: operators must say whether both are one.
            self.receipts[last.id] = line.provider_id
        return self._compare_pair(line, matched, Verdict.MATCHED)

    def _compare_reversal(self, line: ProviderLine, named: list[OurPayment], direction: int) -> Match:
        given_back = (TransactionType.REFUND, TransactionType.CORRECTION)
        refunds = [ours for ours in named if ours.type in given_back]
        # The provider names the collection alone, which may have several refunds, or a correction instead of it.
        refunds.sort(
            key=lambda ours: (not _has_receipt(ours, line), ours.amount_cents != line.amount_cents, ours.direction > 0)
        )
        if (refund := self._first_open(refunds, line)) is not None:
            return self._compare_pair(line, refund, Verdict.REVERSAL)
        original = named[0] if named else None
        theirs_cents = self._count_theirs(line, line.direction or direction)
        has_moved = line.status is LineStatus.SUCCEEDED
        return Match(result_of(line, Verdict.REVERSAL, original, None, theirs_cents, is_difference=has_moved))

    def _compare_pair(self, line: ProviderLine, ours: OurPayment, agreed: Verdict) -> Match:
        # The direction of a reversal is written from the provider's point of view.
        direction = ours.direction if agreed is Verdict.REVERSAL else line.direction
        theirs_cents = self._count_theirs(line, direction)
        if theirs_cents != ours.signed_cents:
            result = result_of(line, Verdict.AMOUNT_DIFFERS, ours, ours.signed_cents, theirs_cents, is_difference=True)
        elif line.status != ours.standing:
            result = result_of(line, Verdict.STATUS_DIFFERS, ours, ours.status, line.status.value, is_difference=True)
        else:
            result = result_of(line, agreed, ours, ours.signed_cents, theirs_cents)
        our_cents = ours.signed_cents if ours.standing is LineStatus.SUCCEEDED else 0
        if line.status is not LineStatus.SUCCEEDED:
            if line.status is LineStatus.FAILED:
                self._failed.add(_key(ours.id))
            return Match(result, line.status, our_cents)
        self._matched.add(_key(ours.id))
        self.ours_cents += our_cents
        # A correction has the receipts of its movement.
        is_its_own = ours.type != TransactionType.CORRECTION
        is_new = bool(is_its_own and line.provider_id and not _has_receipt(ours, line))
        if result.verdict is agreed and is_new:
            self.receipts[ours.id] = line.provider_id
        is_by_name = is_new and bool(ours.receipts)
        if is_by_name:
            self._by_name[_key(ours.id)] = _ByName(bytes.fromhex(receipt_of(line)), our_cents)
            self._days |= days_about(ours.created_at, ours.completed_at or line.at)
        # Payers pay before we learn of it, so that the dates of their payments prove nothing.
        is_timed = agreed is Verdict.MATCHED and ours.origin != Origin.PAYER and ours.effect is None
        if ours.standing is LineStatus.SUCCEEDED and ours.completed_at is not None and is_timed:
            self._dates.compare(line.at, ours.created_at, ours.completed_at)
        return Match(result, is_by_name=is_by_name)

    def _first_open(self, candidates: Sequence[OurPayment], line: ProviderLine) -> OurPayment | None:
        """The first payment without a line, or with one of another receipt, if this line has the payment's."""
        for ours in candidates:
            if _key(ours.id) not in self._matched:
                return ours
            if _key(ours.id) in self._by_name and _has_receipt(ours, line):
                self._no_longer_named(ours.id)
                return ours
        return None

    def _is_told_twice(self, ours: OurPayment) -> bool:
        """Whether a statement may have told a payment under another receipt than its provider told us."""
        return len(ours.receipts) > 1 and not self._gives_two_receipts

    def _no_longer_named(self, payment_id: str) -> None:
        """Let the line that named a payment be a second one."""
        self.ours_cents -= self._by_name.pop(_key(payment_id)).our_cents
        self.receipts.pop(payment_id, None)

    def _count_theirs(self, line: ProviderLine, direction: int) -> int:
        cents = direction * line.amount_cents
        if line.status is LineStatus.SUCCEEDED:
            self.theirs_cents += cents
        return cents


def _put_off(each: _PutOff, those: list[_PutOff], verdict: Verdict) -> Match:
    """Keep a line until the end; return what stands for its result until then."""
    those.append(each)
    result = result_of(each.line, verdict, next(iter(each.ours), None), None, None, is_difference=True)
    return Match(result, at=each.line.at, receipt=receipt_of(each.line))


def _is_told_again(each: _PutOff, told: Mapping[str, Collection[bytes]]) -> bool:
    """Whether stored statements tell a payment by the same line."""
    return any(bytes.fromhex(receipt_of(each.line)) in told[ours.id] for ours in each.ours)


def _is_correction_of(line: ProviderLine, ours: OurPayment) -> bool:
    """Whether a correction is what a line moved."""
    return ours.type == TransactionType.CORRECTION and ours.amount_cents == line.amount_cents


def _names_of(line: ProviderLine) -> set[str]:
    return {each for each in (line.provider_id, line.reference) if each}


def _names_that_left(account: str, names: Collection[str]) -> set[str]:
    """The names of lines of earlier statements that left and are not ours, of those with one of these names."""
    left: Any = StatementDifference.select(StatementDifference.reference, StatementDifference.provider_id).where(
        StatementDifference.account == account,
        StatementDifference.verdict == Verdict.NOT_OURS,
        StatementDifference.moved_cents < 0,
        StatementDifference.reference.in_(names) | StatementDifference.provider_id.in_(names),
    )
    return {name for row in left.tuples() for name in row if name}


def _has_receipt(ours: OurPayment, line: ProviderLine) -> bool:
    return comparable_receipt(line.provider_id) in ours.receipts


def _may_be_refund(refund: OurPayment, original: OurPayment, line: ProviderLine) -> bool:
    """Whether a line that names a collection may be this refund of it.

    A refund stands under its receipt or the collection's. Airtel gives it the collection's, and its line another one.
    """
    if not line.provider_id or (refund.receipts and refund.receipts <= original.receipts):
        return True
    return comparable_receipt(line.provider_id) in refund.receipts | original.receipts


def _key(an_id: str) -> bytes:
    return bytes.fromhex(an_id.replace("-", ""))
