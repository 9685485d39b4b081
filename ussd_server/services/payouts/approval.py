"""Approval of payouts: the sum and the fees of all ready rows are reserved at once, or nothing is."""

from __future__ import annotations

import time
from collections.abc import Callable

import orjson
from peewee import IntegrityError

from ussd_server.clock import Clock
from ussd_server.context import CallerKind, RequestContext
from ussd_server.database.compiled_queries import lock_row
from ussd_server.database.unit_of_work import database, is_postgres
from ussd_server.messages.payouts import PayoutStatus
from ussd_server.messages.transactions import MAIN_ACCOUNT, TransactionType
from ussd_server.models.keys import ApiKey
from ussd_server.models.ledger import Holding, read_holdings
from ussd_server.models.payouts import Payout, PayoutItem
from ussd_server.services.accounts.postings import AnotherFeeError, OverdraftError, Postings
from ussd_server.services.audit import write_audit_event
from ussd_server.services.payouts.drafts import caller_id, caller_people, used_lines
from ussd_server.services.payouts.queue import insert_queued, long_unit_of_work, queued_batch
from ussd_server.services.payouts.rows import transaction_reference
from ussd_server.services.people import people_behind
from ussd_server.services.transactions.batch import Batch
from ussd_server.services.transactions.create import RequestIdentity, TransactionCreator, digest_of
from ussd_server.status import Code, ServiceError

# Other requests of the process go on meanwhile.
_ROWS_BEFORE_A_PAUSE = 50
_MOST_LINES_NAMED = 5


class PayoutApproval:
    """Turns the ready rows of a draft into transactions that wait to be sent."""

    def __init__(self, creator: TransactionCreator, clock: Clock, at_kill_point: Callable[[str], None]) -> None:
        """`at_kill_point` is called with the name of every point at which fault tests may end the process."""
        self._creator = creator
        self._clock = clock
        self._at_kill_point = at_kill_point

    def approve(self, payout: Payout, context: RequestContext) -> Payout:
        """Approve a payout and return it as it is now; again by the same caller, nothing changes.

        Raises INSUFFICIENT_SCOPE for the maker and those who count as one person with the maker, INVALID_REQUEST for a
        payout that cannot be approved, and INSUFFICIENT_BALANCE; nothing is reserved then.
        """
        approver = caller_id(context)
        if not _must_be_approved(payout, approver, context):
            return payout
        try:
            return self._approve(payout, approver, context)
        except AnotherFeeError:
            self._creator.fees.forget(payout.client_id, TransactionType.DISBURSEMENT)
            return self.approve(payout, context)
        except OverdraftError:
            raise _too_little() from None
        except IntegrityError:
            lines = used_lines(payout)
            if not lines:
                raise
            named = ", ".join(map(str, lines[:_MOST_LINES_NAMED]))
            raise ServiceError(
                Code.INVALID_REQUEST, f"The references of these rows were used since the payout was created: {named}"
            ) from None

    def _approve(self, payout: Payout, approver: str, context: RequestContext) -> Payout:
        now = self._clock.now()
        drafts, ids, total_fee_cents = self._drafts(payout, context)
        total_cents = payout.total_amount_cents + total_fee_cents
        account = Holding(payout.client_id, MAIN_ACCOUNT)
        read_holdings([account])
        if account.balance_cents - account.reserved_cents < total_cents:
            # Found early, because the reservation itself is made last.
            raise _too_little()
        with long_unit_of_work():
            row = lock_row(Payout, payout.id)
            if not _must_be_approved(row, approver, context):
                return row
            insert_queued(drafts)
            self._at_kill_point("payout.reserved")
            _name_transactions(row.id, ids)
            row.status, row.approved_by, row.approved_at = PayoutStatus.APPROVED, approver, now
            row.total_fee_cents, row.updated_at, row.due_at = total_fee_cents, now, now
            row.leased_until = row.lease_token = None
            row.save()
            if context.caller.user_id is not None:
                write_audit_event("payout.approved", context, now, client_id=row.client_id, object_id=row.id)
        self._at_kill_point("payout.approved")
        return row

    def _drafts(
        self, payout: Payout, context: RequestContext
    ) -> tuple[list[tuple[Batch, Postings]], dict[int, str], int]:
        """What is written for each ready row, the transaction of each line, and the sum of the fees in cents."""
        items = PayoutItem.select().where(PayoutItem.payout_id == payout.id, PayoutItem.is_ready)
        drafts: list[tuple[Batch, Postings]] = []
        ids: dict[int, str] = {}
        total_fee_cents = 0
        for place, item in enumerate(items.order_by(PayoutItem.line)):
            if place % _ROWS_BEFORE_A_PAUSE == 0:
                time.sleep(0)
            reference = transaction_reference(payout.reference, str(item.reference))
            identity = RequestIdentity(
                payout.client_id, digest_of({"payout_id": payout.id, "line": item.line}), reference
            )
            draft = self._creator.draft(
                identity, TransactionType.DISBURSEMENT, item.amount_cents, phone_number=item.phone_number,
                provider=item.provider, account=MAIN_ACCOUNT, payout_id=payout.id, request_id=context.request_id,
                description=item.description or payout.description,
            )  # fmt: skip
            drafts.append(queued_batch(draft))
            ids[item.line] = draft.row.id
            total_fee_cents += draft.row.fee_cents
        return drafts, ids, total_fee_cents


def makers_of(payout: Payout) -> frozenset[str]:
    """The ids of the people behind the maker of a payout, as of its making."""
    people: frozenset[str] | None = payout.people
    if people is None:
        key = ApiKey.get_or_none(ApiKey.id == payout.created_by)
        return frozenset({payout.created_by}) if key is None else key.people or frozenset()
    return people


def _must_be_approved(payout: Payout, approver: str, context: RequestContext) -> bool:
    """Whether the payout is a draft that this caller may approve; False when this caller has approved it already."""
    makers = people_behind(payout.client_id, makers_of(payout))
    if payout.created_by == approver or makers & people_behind(payout.client_id, caller_people(context)):
        raise ServiceError(
            Code.INSUFFICIENT_SCOPE,
            "A payout is approved by another person than the one behind its maker, and with another key"
            if context.caller.kind is CallerKind.KEY
            else "Insufficient permissions",
        )
    if payout.approved_by == approver and payout.status != PayoutStatus.CANCELLED:
        return False
    if payout.status != PayoutStatus.DRAFT:
        raise ServiceError(Code.INVALID_REQUEST, f"The payout is {payout.status} and cannot be approved")
    if not payout.ready_count:
        raise ServiceError(Code.INVALID_REQUEST, "No row of the payout is ready; correct the rows and send them again")
    return True


def _too_little() -> ServiceError:
    return ServiceError(Code.INSUFFICIENT_BALANCE, "Insufficient balance for the payout and its fees")


def _name_transactions(payout_id: str, ids: dict[int, str]) -> None:
    """Keep the transaction of each ready row, by its line."""
    # A join would compare every row with every line where the planner takes the payout for a short one.
    statement = (
        "UPDATE payout_items SET transaction_id = (%s::jsonb ->> ('line' || line))::uuid"
        " WHERE payout_id = %s AND is_ready"
        if is_postgres()
        else "UPDATE payout_items SET transaction_id = ? ->> ('line' || line) WHERE payout_id = ? AND is_ready"
    )
    made = {f"line{line}": transaction_id for line, transaction_id in ids.items()}
    database.execute_sql(statement, (orjson.dumps(made).decode(), payout_id))
