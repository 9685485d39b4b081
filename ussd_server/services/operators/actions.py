"""What operators decide by two."""

from __future__ import annotations

from collections.abc import Mapping

from ussd_server.context import RequestContext
from ussd_server.messages.operators import ProposalView
from ussd_server.messages.review import EndReview
from ussd_server.services.operators.proposals import TwoPersonAction
from ussd_server.services.transactions.review import ReviewService


def review_actions(review: ReviewService) -> Mapping[str, TwoPersonAction]:
    """Settle a transaction without an outcome (`has_succeeded` is a parameter), or close the review of one with it."""

    def end(proposal: ProposalView, second: str, context: RequestContext) -> object:
        has_succeeded = proposal.parameters.get("has_succeeded")
        return review.end(
            EndReview(proposal.object_id, proposal.reason, proposal.proposed_by, second, has_succeeded), context
        )

    return {"review.settle": end, "review.close": end}
