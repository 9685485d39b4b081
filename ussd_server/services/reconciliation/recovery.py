"""Recovery after a restore: payments that providers have and the restored database lost, booked by two operators."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from peewee import chunked

from ussd_server.context import RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.movements import IN, OUT
from ussd_server.models.transactions import Transaction
from ussd_server.providers.statement_format import LineStatus
from ussd_server.services.accounts.ledger import PROVIDER_ACCOUNT
from ussd_server.services.gates.messages import MONEY_OUT, WayOut
from ussd_server.services.gates.movements import recovering
from ussd_server.services.gates.receipts import lock_receipts
from ussd_server.services.operator_names import require_two_names
from ussd_server.services.processing.outcomes import follow_refunds
from ussd_server.services.providers.accounts import provider_of
from ussd_server.services.reconciliation.comparing.matching import Matcher
from ussd_server.services.reconciliation.days.lines import pairs_told
from ussd_server.services.reconciliation.messages import (
    BookLost,
    Claim,
    ComparedLine,
    FindLost,
    LostPayment,
    RecoveredPayment,
    Verdict,
)
from ussd_server.services.reconciliation.reading.cell_values import phone_number_in
from ussd_server.services.reconciliation.statements import ProviderStatementService
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.audited import audited
from ussd_server.services.transactions.create import RECOVERED, DraftColumns, Plan, RequestIdentity, TransactionCreator
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, SUCCESSFUL, Source, TransactionType
from ussd_server.services.transactions.refunds import left_of
from ussd_server.spreadsheets.rows import SpreadsheetError
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, with_hyphens

_BATCH = 500
_MOST_LOST = 10_000
_MOST_COLLECTIONS = 1000


class RecoveryService:
    """Finds and books lost payments, for operators only.

    Our name for a payment at its provider is derived from the client and its reference. So the name in the statement
    proves the reference that a client names, and a repeat of its request finds the booked payment.
    """

    def __init__(self, runtime: Runtime, creator: TransactionCreator, statements: ProviderStatementService) -> None:
        self._creator = creator
        self._statements = statements
        self._references = runtime.references
        self._clock, self._providers = runtime.clock, runtime.providers

    def find(self, request: FindLost, context: RequestContext) -> tuple[LostPayment, ...]:
        """The lost payments of all statements, 10,000 at most. INVALID_REQUEST for a file that cannot be read."""
        context.require_operator()
        lost_payments: list[LostPayment] = []
        for account, source in request.statements:
            provider = provider_of(account, self._providers)
            reader = self._statements.reader_of(provider, request.reading)
            matcher = Matcher(account, provider, reader.dates, pairs_told)
            lost = []
            try:
                for lines in chunked(reader.lines(source), _BATCH):
                    for line, match in zip(lines, matcher.compare(lines), strict=True):
                        if _is_unknown(match.compared) and line.status is LineStatus.SUCCEEDED:
                            lost.append((line, match))
                    if len(lost) > _MOST_LOST:
                        raise ServiceError(Code.INVALID_REQUEST, "Too many payments are unknown; is it the right file?")
                matcher.others.refuse()
                matcher.end()
            except SpreadsheetError as error:
                raise ServiceError(Code.INVALID_REQUEST, f"{account}: {error}") from None
            lost_payments += [
                LostPayment(
                    account,
                    line.provider_id,
                    line.reference,
                    line.at,
                    _kind_of(compared),
                    abs(int(compared.theirs or 0)),
                    phone_number_in(line.party),
                    compared.transaction_id,
                )
                for line, compared in [(line, matcher.decide(match)) for line, match in lost]
                if line.at >= request.since and _is_unknown(compared)
            ]
        return tuple(lost_payments)

    def book(self, request: BookLost, context: RequestContext) -> tuple[RecoveredPayment, ...]:
        """Book every claim, all or none; the same claims again change nothing.

        INVALID_REQUEST for a claim of a payment that is not lost, for a reference that is not the one under which the
        provider has the payment, for a refund whose collection is not clear, and unless two different people are named;
        INSUFFICIENT_BALANCE for a payment that left and that the client's account cannot pay.
        """
        context.require_operator()
        names = require_two_names(request.by, request.second)
        lost = {(each.account, each.provider_id): each for each in request.lost}
        with unit_of_work():
            for at, direction in product(sorted({claim.account for claim in request.claims}), (IN, OUT)):
                lock_receipts(at, direction, _receipts_at(at, direction, request))
            return tuple(
                self._book(claim, lost.get((claim.account, claim.provider_id)), names, context)
                for claim in sorted(request.claims, key=lambda claim: (claim.client, claim.reference))
            )

    def _book(
        self, claim: Claim, payment: LostPayment | None, names: Sequence[str], context: RequestContext
    ) -> RecoveredPayment:
        if payment is None:
            return _booked_before(claim)
        kind = self._kind(claim, payment)
        original = _collection_of(claim, payment) if kind is TransactionType.REFUND else None
        account = original.account if original else MAIN_ACCOUNT
        outside = PROVIDER_ACCOUNT.format(payment.account)
        moves = (outside, account) if kind is TransactionType.COLLECTION else (account, outside)
        columns: DraftColumns = {
            "account": account,
            "phone_number": original.phone_number if original else payment.phone_number,
            "provider": provider_of(payment.account, self._providers),
            "provider_account": payment.account,
            "provider_transaction_id": payment.provider_id,
            "request_id": context.request_id,
            "operator": names[0],
        }
        if original is not None:
            columns["refund_of"] = original.id
        sending = self._creator.gate.admit(WayOut.RECOVERY, context) if kind in MONEY_OUT else None
        reason, decided_by = f"{payment.account} has it as {payment.provider_id}"[:200], ", ".join(names)
        content = {"amount_cents": payment.amount_cents, "phone_number": columns["phone_number"]}
        identity = RequestIdentity(claim.client, kind, RECOVERED, claim.reference, content=content)
        plan = Plan(payment.amount_cents, columns, moves=moves)
        within = recovering(lambda row: audited(row, "transaction.recovered", context, reason, decided_by))
        created = self._creator.create(identity, plan, Source.OPERATOR, within, sending)
        transaction = created.transaction
        if original is not None:
            follow_refunds(lock_row(Transaction, original.id), Source.OPERATOR, self._clock.now())
        return RecoveredPayment(
            transaction.transaction_id,
            payment.account,
            payment.provider_id,
            claim.client,
            claim.reference,
            transaction.amount_cents,
            created.replayed,
        )

    def _kind(self, claim: Claim, payment: LostPayment) -> TransactionType:
        """The transaction that a provider reference proves; outgoing money is a disbursement or a refund."""
        kinds = [TransactionType.COLLECTION]
        if payment.type != TransactionType.COLLECTION:
            kinds = [TransactionType.DISBURSEMENT, TransactionType.REFUND]
        for kind in kinds:
            if self._references.of_reference(claim.client, kind, claim.reference) == with_hyphens(payment.reference):
                return kind
        named = " or ".join(kinds)
        raise _refusal(claim, f"is not the {named} of this client under the reference {claim.reference!r}")


def _booked_before(claim: Claim) -> RecoveredPayment:
    """The payment of a claim that is no longer lost, because the same file, or the client's own repeat, booked it."""
    row = Transaction.get_or_none(
        Transaction.client_id == claim.client,
        Transaction.reference == claim.reference,
        Transaction.provider_account == claim.account,
        Transaction.provider_transaction_id == claim.provider_id,
    )
    if row is None:
        raise _refusal(claim, "is not among the lost payments")
    return RecoveredPayment(
        row.id, claim.account, claim.provider_id, claim.client, claim.reference, row.amount_cents, replayed=True
    )


def _receipts_at(account: str, direction: str, request: BookLost) -> list[str]:
    """The receipts of the lost payments of one direction that are claimed."""
    claimed = {(claim.account, claim.provider_id) for claim in request.claims}
    return [
        each.provider_id
        for each in request.lost
        if (each.account, each.provider_id) in claimed
        and each.account == account
        and (each.type == TransactionType.COLLECTION) == (direction == IN)
    ]


def _is_unknown(compared: ComparedLine) -> bool:
    if compared.verdict is Verdict.REVERSAL:
        # What brings money back is no payment of ours: its statement holds it.
        return compared.is_difference and int(compared.theirs or 0) <= 0
    return compared.verdict is Verdict.NOT_OURS and compared.transaction_id is None


def _kind_of(compared: ComparedLine) -> TransactionType:
    if compared.verdict is Verdict.REVERSAL:
        return TransactionType.REFUND
    return TransactionType.COLLECTION if int(compared.theirs or 0) > 0 else TransactionType.DISBURSEMENT


def _collection_of(claim: Claim, payment: LostPayment) -> Transaction:
    """The collection that a lost refund gave back, locked: the one that is named, or the only one that fits."""
    named = claim.refund_of or payment.refund_of
    if named and not is_id(named):
        raise _refusal(claim, "names in the column refund_of what is no id of a collection")
    rows = Transaction.select().where(
        Transaction.client_id == claim.client,
        Transaction.type == TransactionType.COLLECTION,
        Transaction.status.in_(SUCCESSFUL),
        Transaction.provider_account == payment.account,
        Transaction.id == named if named else Transaction.phone_number == payment.phone_number,
    )
    found = [row for row in for_update(rows.limit(_MOST_COLLECTIONS)) if _may_have(row, claim, payment)]
    if len(found) != 1:
        raise _refusal(claim, "is a refund; write the id of its collection into the column refund_of")
    row: Transaction = found[0]
    return row


def _may_have(row: Transaction, claim: Claim, payment: LostPayment) -> bool:
    """Whether a collection has so much left, or this refund already."""
    if left_of(row) >= payment.amount_cents:
        return True
    refunds = Transaction.select().where(Transaction.refund_of == row.id, Transaction.reference == claim.reference)
    return bool(refunds.exists())


def _refusal(claim: Claim, problem: str) -> ServiceError:
    return ServiceError(Code.INVALID_REQUEST, f"{claim.account} {claim.provider_id} {problem}. Nothing was booked.")
