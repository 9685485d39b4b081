"""The decisions that take two operators."""

from __future__ import annotations

from collections.abc import Mapping

from ussd_server.context import RequestContext, operator_context
from ussd_server.models.clients import Client
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.balances import BalanceService
from ussd_server.services.bank.messages import SettlementLine
from ussd_server.services.bank.settlements import BankSettlementService
from ussd_server.services.incoming.held import HeldPaymentService
from ussd_server.services.incoming.messages import AssignIncoming, IncomingView, ReturnIncoming
from ussd_server.services.operators.messages import ProposalView, ProposedEffect
from ussd_server.services.operators.proposals import TwoPersonAction
from ussd_server.services.reconciliation.differences import DifferenceService
from ussd_server.services.reconciliation.messages import ConcludeFromStatement, DifferenceView, UndoImport
from ussd_server.services.reconciliation.statements import ProviderStatementService
from ussd_server.services.settlement.messages import EndReview
from ussd_server.services.settlement.review import ReviewService
from ussd_server.services.transactions.messages import OperatorRefund, TransactionType
from ussd_server.services.transactions.refunds import RefundService
from ussd_server.services.transactions.transactions import find_any
from ussd_server.values import written_amount


class EndOfReview:
    """Settles a transaction without an outcome (parameter `has_succeeded`), or closes the review of one that has it."""

    def __init__(self, review: ReviewService) -> None:
        self._review = review

    def effect(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """The transaction's state now and after. Raises the refusals of the review."""
        has_succeeded = proposal.parameters.get("has_succeeded")
        row = self._review.require_open(proposal.object_id, has_succeeded, context)
        after = row.status if has_succeeded is None else "succeeded" if has_succeeded else "failed"
        return _effect(row, f"{row.status}, under review", f"{after}, review closed")

    def act(self, proposal: ProposalView, second: str, context: RequestContext) -> object:
        """End the review."""
        has_succeeded = proposal.parameters.get("has_succeeded")
        return self._review.end(
            EndReview(proposal.object_id, proposal.reason, proposal.proposed_by, second, has_succeeded), context
        )


class Refund:
    """Refunds a collection (parameter `amount_cents`, None: what is left)."""

    def __init__(self, refunds: RefundService) -> None:
        self._refunds = refunds

    def effect(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """The amount of the refund, and how much of the collection is refunded now and after it."""
        seen = self._refunds.preview(proposal.object_id, proposal.parameters.get("amount_cents"), context)
        row = find_any(proposal.object_id)
        collected = written_amount(seen.collected_cents)
        now, after = map(written_amount, (seen.refunded_cents, seen.refunded_cents + seen.amount_cents))
        state = f"{row.status}, {{}} of {collected} refunded"
        return _effect(row, state.format(now), state.format(after), amount_cents=seen.amount_cents)

    def act(self, proposal: ProposalView, second: str, context: RequestContext) -> object:
        """Create the refund."""
        return self._refunds.create_by_operators(
            OperatorRefund(
                proposal.object_id,
                proposal.reason,
                proposal.proposed_by,
                second,
                amount_cents=proposal.parameters.get("amount_cents"),
                number=self._refunds.next_number(proposal.object_id),
            ),
            context,
        )


class Conclusion:
    """Sets the payment of a difference to succeeded, as the provider's statement says."""

    def __init__(self, differences: DifferenceService) -> None:
        self._differences = differences

    def effect(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """The payment's state now and after, and the line of the statement."""
        line = self._differences.require_conclusive(proposal.object_id, context)
        row = find_any(line.transaction_id or "", locked=True)
        return _effect(row, str(row.status), "succeeded", statement_line=_written_line(line))

    def act(self, proposal: ProposalView, second: str, context: RequestContext) -> object:
        """Conclude the payment and end the review of the difference."""
        return self._differences.conclude(
            ConcludeFromStatement(proposal.object_id, proposal.reason, proposal.proposed_by, second), context
        )


class UndoneImport:
    """Takes the import of a statement back."""

    def __init__(self, statements: ProviderStatementService) -> None:
        self._statements = statements

    def effect(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """The statement, and how many differences go with it."""
        statement = self._statements.show(proposal.object_id, context)
        count = statement.difference_count
        return ProposedEffect(
            state_now=f"imported, {count:,} {'difference' if count == 1 else 'differences'}",
            state_after="removed, as if it had never been imported",
            statement_line=f"{statement.file_name}, {statement.provider}",
        )

    def act(self, proposal: ProposalView, second: str, context: RequestContext) -> object:
        """Undo the import."""
        return self._statements.undo(
            UndoImport(proposal.object_id, proposal.proposed_by, second, proposal.reason), context
        )


class RecordedSettlement:
    """Records what the bank has paid to a client; the parameters are those of a `SettlementLine`."""

    def __init__(self, settlements: BankSettlementService, balances: BalanceService) -> None:
        self._settlements = settlements
        self._balances = balances

    def effect(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """What the client has available now and after, and the bank account. Raises the refusal of the line."""
        line = SettlementLine(**proposal.parameters)
        self._settlements.require_recordable(line, context)
        available = self._balances.get(None, operator_context(line.client_id)).available_cents
        client = Client.get_by_id(line.client_id)
        return ProposedEffect(
            client_id=client.id,
            client=client.name,
            type=TransactionType.SETTLEMENT,
            reference=line.bank_reference,
            amount_cents=line.amount_cents,
            state_now=f"{written_amount(available)} available",
            state_after=f"{written_amount(available - line.amount_cents)} available",
            bank_account=f"{line.bank}, {line.number}, {line.name}",
        )

    def act(self, proposal: ProposalView, second: str, context: RequestContext) -> object:
        """Record the settlement."""
        line = SettlementLine(**proposal.parameters)
        return self._settlements.record_line(line, proposal.proposed_by, second, context)


def _held_state(payment: IncomingView) -> str:
    """Why a payment is held, with what its payer typed."""
    return f"held: {payment.held_because}. " + (f"Typed: {payment.code}" if payment.code else "Nothing was typed")


class AssignedPayment:
    """Books a held payment under a payment code (parameter `code`)."""

    def __init__(self, held: HeldPaymentService) -> None:
        self._held = held

    def effect(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """The payment, and the code's client that gets it. Raises the refusal of the assignment."""
        payment, code, client_id = self._held.require_assignable(
            proposal.object_id, proposal.parameters["code"], context
        )
        client = Client.get_by_id(client_id)
        return ProposedEffect(
            client_id=client.id,
            client=client.name,
            phone_number=payment.phone_number,
            amount_cents=payment.amount_cents,
            state_now=_held_state(payment),
            state_after=f"booked for {code.code}, {code.description}, on the account {code.account}",
            receipt=f"{payment.provider} {payment.provider_transaction_id}",
        )

    def act(self, proposal: ProposalView, second: str, context: RequestContext) -> object:
        """Book the payment."""
        request = AssignIncoming(proposal.object_id, proposal.parameters["code"], proposal.proposed_by, second)
        return self._held.assign(request, context)


class ReturnedPayment:
    """Marks a held payment for return."""

    def __init__(self, held: HeldPaymentService) -> None:
        self._held = held

    def effect(self, proposal: ProposalView, context: RequestContext) -> ProposedEffect:
        """The payment. Raises the refusal for one that is not held."""
        payment = self._held.require_held(proposal.object_id, context)
        return ProposedEffect(
            phone_number=payment.phone_number,
            amount_cents=payment.amount_cents,
            state_now=_held_state(payment),
            state_after="marked for return; the operator gives it back at the provider",
            receipt=f"{payment.provider} {payment.provider_transaction_id}",
        )

    def act(self, proposal: ProposalView, second: str, context: RequestContext) -> object:
        """Mark the payment."""
        request = ReturnIncoming(proposal.object_id, proposal.reason, proposal.proposed_by, second)
        return self._held.mark_returned(request, context)


def two_person_actions(
    review: ReviewService,
    refunds: RefundService,
    differences: DifferenceService,
    statements: ProviderStatementService,
    settlements: BankSettlementService,
    balances: BalanceService,
    held: HeldPaymentService,
) -> Mapping[str, TwoPersonAction]:
    """The actions by name; the object is a transaction, a statement, its difference, a client or a held payment."""
    end_of_review = EndOfReview(review)
    return {
        "review.settle": end_of_review,
        "review.close": end_of_review,
        "transaction.refund": Refund(refunds),
        "difference.conclude": Conclusion(differences),
        "statement.undo": UndoneImport(statements),
        "settlement.record": RecordedSettlement(settlements, balances),
        "incoming.assign": AssignedPayment(held),
        "incoming.return": ReturnedPayment(held),
    }


def _effect(
    row: Transaction, now: str, after: str, *, amount_cents: int | None = None, statement_line: str | None = None
) -> ProposedEffect:
    client = Client.get_by_id(row.client_id)
    return ProposedEffect(
        client_id=client.id,
        client=client.name,
        transaction_id=row.id,
        type=row.type,
        reference=row.reference,
        phone_number=row.phone_number,
        amount_cents=row.amount_cents if amount_cents is None else amount_cents,
        state_now=now,
        state_after=after,
        statement_line=statement_line,
    )


def _written_line(line: DifferenceView) -> str:
    """The line of a statement as one sentence."""
    place = "no line" if line.line is None else f"line {line.line}"
    known = [line.provider_id, line.reference, line.dated, line.party]
    return f"{line.file_name}, {place}: {line.theirs}, here {line.ours}; {', '.join(filter(None, known))}"
