"""Matches lines of a statement with our transactions, compares each pair, and names what the statement lacks."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from ussd_server.models.movements import users_of_receipts
from ussd_server.models.transactions import Transaction
from ussd_server.providers.statement_format import LineStatus, LineType
from ussd_server.services.gates.given_back import counts_elsewhere
from ussd_server.services.reconciliation.comparing.other_accounts import OtherAccounts
from ussd_server.services.reconciliation.comparing.our_payments import COLUMNS, OurPayment, payments_within
from ussd_server.services.reconciliation.messages import ComparedLine, Verdict
from ussd_server.services.reconciliation.reading.statement_lines import Period, ProviderLine, StatementDates
from ussd_server.services.transactions.messages import Origin, TransactionType
from ussd_server.values import comparable_receipt, is_id, with_hyphens


@dataclass(frozen=True, slots=True)
class Match:
    """The result for a line, from the lines up to it.

    `unmoved` is the status of a line that names a payment of ours and moved no money: another line of the statement may
    report the payment's success. It is None for a final result. `our_cents` is what the line adds to our sum if no such
    line follows. `at` and `receipt` are of the line.
    """

    compared: ComparedLine
    unmoved: LineStatus | None = None
    our_cents: int = 0
    at: datetime | None = None
    receipt: str = ""


class Matcher:
    """Compares one statement with the transactions of its account.

    A line is matched by the provider's id, then by our reference, never by its amount. A transaction is matched once,
    by a success before a failure: a second success is not ours. Memory grows by some 100 bytes for each matched line.
    """

    def __init__(self, account: str, provider: str, dates: StatementDates) -> None:
        """`dates` receive the dates of matched lines."""
        self._account, self.others = account, OtherAccounts(account, provider)
        self._dates = dates
        self._matched: set[bytes] = set()
        self._failed: set[bytes] = set()
        # Reversals that name a collection alone, with its refunds: another line may be the refund.
        self._put_off: dict[int | None, tuple[ProviderLine, list[OurPayment], dict[str, list[OurPayment]]]] = {}
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
            if line.type is LineType.REVERSAL and ours and all(refunds.get(each.id) for each in ours):
                self._put_off[line.line] = line, ours, refunds
                result = _result(line, Verdict.REVERSAL, ours[0], None, None, is_difference=True)
                matches.append(Match(result, at=line.at, receipt=receipt_of(line)))
            else:
                matches.append(self._match(line, ours, refunds))
        return matches

    def decide(self, match: Match) -> ComparedLine:
        """The final result of a line; call once for each, in their order, after every line was compared."""
        if (put_off := self._put_off.pop(match.compared.line, None)) is not None:
            match = self._match(*put_off)
        if match.unmoved is None:
            return match.compared
        key = _key(match.compared.transaction_id or "")
        if key in self._matched or (match.unmoved is LineStatus.PENDING and key in self._failed):
            # Another line reports how this payment ended.
            return replace(match.compared, verdict=Verdict.MATCHED, ours=None, theirs=None, is_difference=False)
        self._matched.add(key)
        self.ours_cents += match.our_cents
        return match.compared

    def missing(self, period: Period) -> Iterator[ComparedLine]:
        """The results for what succeeded here within the period and has no line."""
        for ours in payments_within(self._account, period):
            if _key(ours.id) not in self._matched:
                self.ours_cents += ours.signed_cents
                yield _result(None, Verdict.NOT_THEIRS, ours, ours.signed_cents, None, is_difference=True)

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
            return Match(_result(line, Verdict.FEE, named[0] if named else None, None, theirs_cents))
        if line.type is LineType.REVERSAL:
            # What left comes back; what came is given back.
            direction = 1 if named and all(ours.direction < 0 for ours in named) else -1
            # Airtel gives a refund the id of the payment that it gives back.
            named = [
                refund
                for ours in named
                for refund in (refunds.get(ours.id, ()) if ours.type == TransactionType.COLLECTION else (ours,))
                if refund is ours or _may_be_refund(refund, ours, line)
            ] or named
            return self._compare_reversal(line, named, direction)
        candidates = [ours for ours in named if ours.type != TransactionType.REFUND] or named
        # What operators booked instead of a payment has its receipt, too.
        candidates.sort(key=lambda ours: not _is_correction_of(line, ours))
        ours = next((each for each in candidates if _key(each.id) not in self._matched), None)
        second = candidates[0] if candidates else None
        if ours is None and (second is None or line.status is LineStatus.SUCCEEDED):
            theirs_cents = self._count_theirs(line, line.direction)
            return Match(_result(line, Verdict.NOT_OURS, second, None, theirs_cents, is_difference=True))
        return self._compare_pair(line, ours or candidates[0], Verdict.MATCHED)

    def _compare_reversal(self, line: ProviderLine, named: list[OurPayment], direction: int) -> Match:
        given_back = (TransactionType.REFUND, TransactionType.CORRECTION)
        refunds = [ours for ours in named if ours.type in given_back and _key(ours.id) not in self._matched]
        # The provider names the collection alone, which may have several refunds, or a correction instead of it.
        refunds.sort(key=lambda ours: (ours.amount_cents != line.amount_cents, ours.direction > 0))
        if refunds:
            return self._compare_pair(line, refunds[0], Verdict.REVERSAL)
        original = named[0] if named else None
        theirs_cents = self._count_theirs(line, line.direction or direction)
        has_moved = line.status is LineStatus.SUCCEEDED
        return Match(_result(line, Verdict.REVERSAL, original, None, theirs_cents, is_difference=has_moved))

    def _compare_pair(self, line: ProviderLine, ours: OurPayment, agreed: Verdict) -> Match:
        # The direction of a reversal is written from the provider's point of view.
        direction = ours.direction if agreed is Verdict.REVERSAL else line.direction
        theirs_cents = self._count_theirs(line, direction)
        if theirs_cents != ours.signed_cents:
            result = _result(line, Verdict.AMOUNT_DIFFERS, ours, ours.signed_cents, theirs_cents, is_difference=True)
        elif line.status != ours.standing:
            result = _result(line, Verdict.STATUS_DIFFERS, ours, ours.status, line.status.value, is_difference=True)
        else:
            result = _result(line, agreed, ours, ours.signed_cents, theirs_cents)
        our_cents = ours.signed_cents if ours.standing is LineStatus.SUCCEEDED else 0
        if line.status is not LineStatus.SUCCEEDED:
            if line.status is LineStatus.FAILED:
                self._failed.add(_key(ours.id))
            return Match(result, line.status, our_cents)
        self._matched.add(_key(ours.id))
        self.ours_cents += our_cents
        # A correction has the receipts of its movement.
        is_its_own = ours.type != TransactionType.CORRECTION
        is_new = is_its_own and line.provider_id and comparable_receipt(line.provider_id) not in ours.receipts
        if result.verdict is Verdict.MATCHED and is_new:
            self.receipts[ours.id] = line.provider_id
        # Payers pay before we learn of it, so that the dates of their payments prove nothing.
        is_timed = agreed is Verdict.MATCHED and ours.origin != Origin.PAYER and ours.effect is None
        if ours.standing is LineStatus.SUCCEEDED and ours.completed_at is not None and is_timed:
            self._dates.compare(line.at, ours.created_at, ours.completed_at)
        return Match(result)

    def _count_theirs(self, line: ProviderLine, direction: int) -> int:
        cents = direction * line.amount_cents
        if line.status is LineStatus.SUCCEEDED:
            self.theirs_cents += cents
        return cents


def _is_correction_of(line: ProviderLine, ours: OurPayment) -> bool:
    """Whether a correction is what a line moved."""
    is_that_way = line.direction == ours.direction
    return ours.type == TransactionType.CORRECTION and is_that_way and ours.amount_cents == line.amount_cents


def _may_be_refund(refund: OurPayment, original: OurPayment, line: ProviderLine) -> bool:
    """Whether a line that names a collection may be this refund of it.

    A refund stands under its receipt or the collection's. Airtel gives it the collection's, and its line another one.
    """
    if not line.provider_id or (refund.receipts and refund.receipts <= original.receipts):
        return True
    return comparable_receipt(line.provider_id) in refund.receipts | original.receipts


def _result(
    line: ProviderLine | None,
    verdict: Verdict,
    ours: OurPayment | None,
    our_value: int | str | None,
    their_value: int | str | None,
    *,
    is_difference: bool = False,
) -> ComparedLine:
    provider_id = line.provider_id if line else ours.provider_transaction_id if ours else None
    reference = (line.reference if line else None) or (ours.name_there if ours else None)
    return ComparedLine(
        line=line.line if line else None,
        verdict=verdict,
        provider_id=provider_id or None,
        reference=reference or None,
        transaction_id=ours.id if ours else None,
        ours=our_value,
        theirs=their_value,
        is_difference=is_difference,
        dated=line.dated if line else None,
        party=line.party if line else None,
        at=None if line or ours is None else ours.completed_at,
    )


def receipt_of(line: ProviderLine) -> str:
    """The digest by which lines of two statements are the same: of their kind and the provider's id."""
    kind = line.type if line.type in (LineType.FEE, LineType.REVERSAL) else "payment"
    return digest_of_names(kind, line.provider_id, line.reference, line.dated, line.party)


def digest_of_names(
    kind: str, provider_id: str | None, reference: str | None, dated: str | None, party: str | None
) -> str:
    """The digest of what names a line: the provider's id, else our reference, else its date and party."""
    name = provider_id or reference or f"{dated} {party}"
    return hashlib.blake2b(f"{kind} {name}".encode(), digest_size=16).hexdigest()


def _key(an_id: str) -> bytes:
    return bytes.fromhex(an_id.replace("-", ""))
