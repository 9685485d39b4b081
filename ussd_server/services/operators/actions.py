"""What operators decide by two."""

from __future__ import annotations

from collections.abc import Mapping

from ussd_server.context import RequestContext
from ussd_server.messages.operators import ProposalView
from ussd_server.messages.reconciliation.differences import ConcludeFromStatement
from ussd_server.messages.reconciliation.statements import UndoImport
from ussd_server.messages.settlement.review import EndReview
from ussd_server.messages.transactions import OperatorRefund
from ussd_server.services.operators.proposals import TwoPersonAction
from ussd_server.services.reconciliation.differences import DifferenceService
from ussd_server.services.reconciliation.statements import ProviderStatementService
from ussd_server.services.settlement.review import ReviewService
from ussd_server.services.transactions.refunds import RefundService


def two_person_actions(
    review: ReviewService, refunds: RefundService, differences: DifferenceService, statements: ProviderStatementService
) -> Mapping[str, TwoPersonAction]:
    """The actions by name; the object of each is a transaction, a statement or its difference.

    `review.settle` settles one without an outcome (parameter `has_succeeded`), `review.close` closes the review of one
    that has it, `transaction.refund` refunds a collection (parameter `amount_cents`, None: what is left).
    `difference.conclude` sets the payment of a difference to succeeded, `statement.undo` takes an import back.
    """

    def end_review(proposal: ProposalView, second: str, context: RequestContext) -> object:
        has_succeeded = proposal.parameters.get("has_succeeded")
        return review.end(
            EndReview(proposal.object_id, proposal.reason, proposal.proposed_by, second, has_succeeded), context
        )

    def refund(proposal: ProposalView, second: str, context: RequestContext) -> object:
        return refunds.create_by_operators(
            OperatorRefund(
                proposal.object_id, proposal.reason, proposal.proposed_by, second,
                amount_cents=proposal.parameters.get("amount_cents"),
                reference=f"operator-refund-{proposal.proposal_id}",
            ),
            context,
        )  # fmt: skip

    def conclude(proposal: ProposalView, second: str, context: RequestContext) -> object:
        return differences.conclude(
            ConcludeFromStatement(proposal.object_id, proposal.reason, proposal.proposed_by, second), context
        )

    def undo_import(proposal: ProposalView, second: str, context: RequestContext) -> object:
        return statements.undo(UndoImport(proposal.object_id, proposal.proposed_by, second, proposal.reason), context)

    return {
        "review.settle": end_review,
        "review.close": end_review,
        "transaction.refund": refund,
        "difference.conclude": conclude,
        "statement.undo": undo_import,
    }
