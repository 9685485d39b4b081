"""Approval of payouts: the sum and the fees of all ready rows are reserved at once, or nothing is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import orjson
from peewee import IntegrityError

from ussd_server.context import CallerKind, RequestContext
from ussd_server.database.compiled_queries import lock_row
from ussd_server.database.unit_of_work import dialect, run_query
from ussd_server.logs import Logger
from ussd_server.models.ledger import Holding, read_holdings
from ussd_server.models.payouts import Payout
from ussd_server.models.transactions import QUEUED_UNTIL
from ussd_server.runtime import Runtime
from ussd_server.services.accounts.ledger import DailyLimitError, OverdraftError, Postings
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.payouts.digests import ItemsDigest, PayoutDigests, judged_rows
from ussd_server.services.payouts.drafts import caller_id, caller_people, used_lines
from ussd_server.services.payouts.messages import PayoutStatus
from ussd_server.services.payouts.queue import insert_queued, long_unit_of_work, queued_batch
from ussd_server.services.payouts.rows import transaction_reference
from ussd_server.services.people import people_behind
from ussd_server.services.transactions.create import Batch, TransactionCreator, daily_limit_reached
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, TransactionType
from ussd_server.services.transactions.names import RequestIdentity, digest_of
from ussd_server.status import Code, ServiceError
from ussd_server.values import shillings

log = Logger(__name__)

# After so many rows, let other requests of the process run.
_ROWS_BEFORE_A_PAUSE = 50
_MOST_LINES_NAMED = 5
_TYPES = {"transaction_id": "uuid", "fee_cents": "bigint"}


@dataclass(slots=True)
class _Drafted:
    """The rows of an approval: the transactions, the id and the fee of each by its line, and the digest of all rows."""

    queued: list[tuple[Batch, Postings]] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)
    fees: dict[int, int] = field(default_factory=dict)
    items_digest: str = ""


class PayoutApproval:
    """Turns the ready rows of a draft into transactions that wait to be sent."""

    def __init__(self, runtime: Runtime, creator: TransactionCreator) -> None:
        self._creator = creator
        self._digests = PayoutDigests(runtime.vault)
        self._clock = runtime.clock
        self._at_kill_point = runtime.at_kill_point

    def approve(self, payout: Payout, context: RequestContext, shown_fee_cents: int | None = None) -> Payout:
        """Approve a payout and return it as it is now; again by the same caller, nothing changes.

        `shown_fee_cents` are the fees that the approver saw. Raises INSUFFICIENT_SCOPE for the maker and for people who
        count as one person with the maker, INVALID_REQUEST for a payout that cannot be approved, was changed since it
        was judged, or costs other fees, INSUFFICIENT_BALANCE, and DAILY_LIMIT_REACHED of the approving key;
        nothing is reserved then.
        """
        approver = caller_id(context)
        if not _must_be_approved(payout, approver, context):
            return payout
        self._creator.require_open()
        fees, fee = self._creator.fees, (payout.client_id, TransactionType.DISBURSEMENT)
        fees.forget(*fee)
        try:
            return fees.with_agreed_fee(*fee, lambda: self._approve(payout, approver, context, shown_fee_cents))
        except OverdraftError:
            raise _too_little() from None
        except DailyLimitError:
            raise daily_limit_reached() from None
        except IntegrityError:
            lines = used_lines(payout)
            if not lines:
                raise
            named = ", ".join(map(str, lines[:_MOST_LINES_NAMED]))
            raise ServiceError(
                Code.INVALID_REQUEST, f"The references of these rows were used since the payout was created: {named}"
            ) from None

    def _approve(self, payout: Payout, approver: str, context: RequestContext, shown_fee_cents: int | None) -> Payout:
        now = self._clock.now()
        drafted = self._drafted(payout, context)
        self._require_as_judged(payout, drafted.items_digest)
        total_fee_cents = sum(drafted.fees.values())
        if shown_fee_cents not in (None, total_fee_cents):
            if total_fee_cents != payout.total_fee_cents:
                _show_fees(payout, drafted.fees, now)
            raise ServiceError(
                Code.INVALID_REQUEST, f"total_fee: The fees of the payout are {shillings(total_fee_cents)} now"
            )
        total_cents = payout.total_amount_cents + total_fee_cents
        account = Holding(payout.client_id, MAIN_ACCOUNT)
        read_holdings([account])
        if account.balance_cents - account.reserved_cents < total_cents:
            # Check the balance early, because the reservation is the last statement.
            raise _too_little()
        with long_unit_of_work():
            row = lock_row(Payout, payout.id)
            if not _must_be_approved(row, approver, context):
                return row
            self._require_as_judged(row, drafted.items_digest)
            insert_queued(drafted.queued)
            self._at_kill_point("payout.reserved")
            _write_by_line(row.id, "transaction_id", drafted.ids)
            row.status, row.approved_by, row.approved_at = PayoutStatus.APPROVED, approver, now
            row.total_fee_cents, row.updated_at, row.due_at = total_fee_cents, now, now
            row.leased_until = row.lease_token = None
            row.approval_digest = self._digests.of_approval(row)
            row.save()
            write_audit_event("payout.approved", context, now, client_id=row.client_id, object_id=row.id)
        self._at_kill_point("payout.approved")
        return row

    def _drafted(self, payout: Payout, context: RequestContext) -> _Drafted:
        drafted, items = _Drafted(), ItemsDigest()
        for place, item in enumerate(judged_rows(payout.id)):
            if place % _ROWS_BEFORE_A_PAUSE == 0:
                time.sleep(0)
            items.add(item)
            if not item.is_ready:
                continue
            reference = transaction_reference(payout.reference, str(item.reference))
            identity = RequestIdentity(
                payout.client_id,
                TransactionType.DISBURSEMENT,
                digest_of({"payout_id": payout.id, "line": item.line}),
                reference,
            )
            draft = self._creator.draft(
                identity,
                item.amount_cents or 0,
                phone_number=item.phone_number,
                provider=item.provider,
                account=MAIN_ACCOUNT,
                payout_id=payout.id,
                request_id=context.request_id,
                key_id=context.caller.key_id,
                description=item.description or payout.description,
                due_at=QUEUED_UNTIL,
            )
            drafted.queued.append(queued_batch(draft))
            drafted.ids[item.line], drafted.fees[item.line] = draft.row.id, draft.row.fee_cents
        drafted.items_digest = str(items)
        return drafted

    def _require_as_judged(self, payout: Payout, items_digest: str) -> None:
        """Raise INVALID_REQUEST when a draft or its rows were changed since the draft was created."""
        if not self._digests.is_as_judged(payout, items_digest):
            log.error("a payout was not approved, because it is not what was judged", object_id=payout.id)
            raise ServiceError(
                Code.INVALID_REQUEST,
                "The payout is not what was judged when it was created, or an earlier version created it; "
                "cancel it and send its rows again under another reference",
            )


def _must_be_approved(payout: Payout, approver: str, context: RequestContext) -> bool:
    """Whether the payout is a draft that this caller may approve; False when this caller has approved it already."""
    makers = people_behind(payout.client_id, payout.people or ())
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


def _show_fees(payout: Payout, fees: Mapping[int, int], now: datetime) -> None:
    """Keep the fees that are agreed now with a draft, so that its next reader sees them."""
    with long_unit_of_work():
        row = lock_row(Payout, payout.id)
        if row.status == PayoutStatus.DRAFT:
            _write_by_line(row.id, "fee_cents", fees)
            row.total_fee_cents, row.updated_at = sum(fees.values()), now
            row.save()


def _write_by_line(payout_id: str, column: str, values: Mapping[int, str | int]) -> None:
    """Write a column of every ready row, by its line."""
    # Not a join: if the planner expects a short payout, it compares every row with every line.
    value = dialect().json_value(":values", "'line' || line", _TYPES[column])
    run_query(
        f"UPDATE payout_items SET {column} = {value} WHERE payout_id = :payout_id AND is_ready",  # noqa: S608
        values=orjson.dumps({f"line{line}": value for line, value in values.items()}).decode(),
        payout_id=payout_id,
    )
