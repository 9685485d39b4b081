"""Recovery after a restore: payments that providers have and the restored database lost, booked by two operators."""

from __future__ import annotations

from peewee import chunked

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.providers.statement_format import LineStatus
from ussd_server.runtime import Runtime
from ussd_server.services.accounts.ledger import PROVIDER_ACCOUNT
from ussd_server.services.gates.messages import MONEY_OUT, WayOut
from ussd_server.services.operator_names import require_two_names
from ussd_server.services.reconciliation.cell_values import phone_number_in
from ussd_server.services.reconciliation.matching import Matcher
from ussd_server.services.reconciliation.messages import (
    BookLost,
    Claim,
    FindLost,
    LostPayment,
    RecoveredPayment,
    Verdict,
)
from ussd_server.services.reconciliation.statements import ProviderStatementService
from ussd_server.services.transactions.bookings import audited, book
from ussd_server.services.transactions.create import RECOVERED, RequestIdentity, TransactionCreator
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, TransactionType
from ussd_server.spreadsheets.rows import SpreadsheetError
from ussd_server.status import Code, ServiceError

_BATCH = 500
_MOST_LOST = 10_000


class RecoveryService:
    """Finds and books lost payments, for operators only.

    Our name for a payment at its provider is derived from the client and its reference. So the name in the statement
    proves the reference that a client names, and a repeat of its request finds the booked payment.
    """

    def __init__(self, runtime: Runtime, creator: TransactionCreator, statements: ProviderStatementService) -> None:
        self._creator = creator
        self._statements = statements
        self._references = runtime.references

    def find(self, request: FindLost, context: RequestContext) -> tuple[LostPayment, ...]:
        """The lost payments of all statements, 10,000 at most. INVALID_REQUEST for a file that cannot be read."""
        context.require_operator()
        found: list[LostPayment] = []
        for provider, source in request.statements:
            reader = self._statements.reader_of(provider)
            matcher = Matcher(provider, reader.orders)
            lost = []
            try:
                for lines in chunked(reader.lines(source), _BATCH):
                    for line, match in zip(lines, matcher.compare(lines), strict=True):
                        is_unknown = (
                            match.compared.verdict is Verdict.NOT_OURS and match.compared.transaction_id is None
                        )
                        if is_unknown and line.status is LineStatus.SUCCEEDED:
                            lost.append((line, int(match.compared.theirs or 0)))
                    if len(lost) > _MOST_LOST:
                        raise ServiceError(Code.INVALID_REQUEST, "Too many payments are unknown; is it the right file?")
            except SpreadsheetError as error:
                raise ServiceError(Code.INVALID_REQUEST, f"{provider}: {error}") from None
            found += [
                LostPayment(
                    provider,
                    line.provider_id,
                    line.reference,
                    at,
                    TransactionType.COLLECTION if cents > 0 else TransactionType.DISBURSEMENT,
                    abs(cents),
                    phone_number_in(line.party),
                )
                for line, cents in lost
                if (at := reader.moment_of(line)) >= request.since
            ]
        return tuple(found)

    def book(self, request: BookLost, context: RequestContext) -> tuple[RecoveredPayment, ...]:
        """Book every claim, all or none; the same claims again change nothing.

        INVALID_REQUEST for a claim of a payment that is not lost, for a reference that is not the one under which the
        provider has the payment, and unless two different people are named; INSUFFICIENT_BALANCE for a disbursement
        that the client's account cannot pay.
        """
        context.require_operator()
        names = require_two_names(request.by, request.second)
        lost = {(each.provider, each.provider_id): each for each in request.lost}
        with unit_of_work():
            return tuple(
                self._book(claim, lost.get((claim.provider, claim.provider_id)), ", ".join(names), context)
                for claim in sorted(request.claims, key=lambda claim: (claim.client, claim.reference))
            )

    def _book(self, claim: Claim, payment: LostPayment | None, names: str, context: RequestContext) -> RecoveredPayment:
        if payment is None:
            raise _refusal(claim, "is not among the lost payments")
        kind = TransactionType(payment.type)
        if self._references.of_reference(claim.client, kind, claim.reference) != payment.reference.lower():
            raise _refusal(claim, f"is not the {kind} of this client under the reference {claim.reference!r}")
        sides = [PROVIDER_ACCOUNT.format(payment.provider), MAIN_ACCOUNT]
        debited, credited = sides if kind is TransactionType.COLLECTION else reversed(sides)
        sending = self._creator.gate.admit(WayOut.RECOVERY, context) if kind in MONEY_OUT else None
        reason = f"{payment.provider} has it as {payment.provider_id}"[:200]
        created = book(
            self._creator,
            RequestIdentity(claim.client, kind, RECOVERED, claim.reference),
            payment.amount_cents,
            debited,
            credited,
            lambda row: audited(row, "transaction.recovered", context, reason, names),
            sending=sending,
            phone_number=payment.phone_number,
            provider=payment.provider,
            provider_transaction_id=payment.provider_id,
            request_id=context.request_id,
        )
        made = created.transaction
        return RecoveredPayment(
            made.transaction_id,
            payment.provider,
            payment.provider_id,
            claim.client,
            claim.reference,
            made.amount_cents,
            created.replayed,
        )


def _refusal(claim: Claim, problem: str) -> ServiceError:
    return ServiceError(Code.INVALID_REQUEST, f"{claim.provider} {claim.provider_id} {problem}. Nothing was booked.")
