"""The violations that the check reports, in its words."""

from __future__ import annotations

from ussd_server.services.operations.book_check import approvals as check_approvals
from ussd_server.services.operations.book_check import history as check_history
from ussd_server.services.operations.book_check import reviews as check_reviews

SUM = "has accounts that do not add up to zero"
BALANCE = "has a balance or reservation that differs from its transfers"
STATEMENT = "has a statement that does not follow its transfers"
NEGATIVE = "has less than nothing"
STATE = "has a status that contradicts its transfers"
FOREIGN = "moved money of another client"
ENDED = "has a hold that was ended by something else than it reserved"
FORGOTTEN = "is unfinished without a due time or an open review"
GAP = "has a gap in its events"
ELSEWHERE = "moved money between other accounts than it names"
TWICE = "moved the same money twice"
ENDED_TWICE = "has a hold that was ended twice"
HISTORY = check_history.BROKEN_HISTORY
EVENTS_MISSING = check_history.EVENTS_MISSING
MISSING = check_history.MISSING
CONTRADICTED = check_history.CONTRADICTED
FORGED = check_history.FORGED
NO_COLLECTION = "is a refund of something else than a collection of its client that succeeded"
TOO_MUCH = "has refunds that exceed it"
REVERSED = "is reversed without refunds of all of it, or has them and is not reversed"
AHEAD = "has a lease or a due time far ahead"
UNENDED = "is a session that ended without an event of it, or has such an event and did not end"
SAME_REFERENCE = "has the reference of another one"
BOUND_ELSEWHERE = "has an idempotency key that is bound to another one"
SAME_KEY = "has the idempotency key of another one"
SAME_CONFIRMATION = "has the confirmation of another one"
SAME_PROVIDER_REFERENCE = "has the provider reference of another one"
OTHER_TOTALS = "has other counts or totals than its rows"
OTHER_ROWS = "has rows that differ from their transactions"
PAYOUT_STATE = "has a status that contradicts its transactions"
OWN_APPROVAL = "was approved by its maker"
NEVER_DUE = "is unfinished without a due time"
UNREPORTED = "was completed without an event of it, or has such an event and was not completed"
IN_NO_PAYOUT = "names a payout that does not have it as a row"
SAME_NAME = "has the name of another one"
NOT_JUDGED = check_approvals.OTHER_THAN_JUDGED
OTHER_EVENT = check_approvals.UNREPORTED
UNDECIDED = check_reviews.UNDECIDED
NO_REVIEW = check_history.UNREPORTED_REVIEW
OTHER_TIME = "has a movement in its statement at another time than it was made"
OTHER_KIND = "has a kind that is not that of its name"
NEVER_SENT = "was answered by its provider and never sent"
SPENT = "has spent another sum on a day than its payments"
OTHER_RECEIPT = "is booked without the payment of its receipt, or has one and is not booked"
NO_RECEIPT = "came from a payer without a receipt of its own"
PAID_TWICE = "came from a payer with the receipt of another collection"
NO_DECISION = "was returned without a decision of two operators"
SAME_RECEIPT = "has the receipt of another one"
UNBOUND = "has an idempotency key that is bound to none"
