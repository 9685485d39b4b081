"""Reservation of payouts: every ready row becomes a transaction that waits, with its money set aside, or none does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

import orjson
from peewee import IntegrityError

from ussd_server.database.unit_of_work import dialect, run_query
from ussd_server.models.ledger import Holding, read_holdings
from ussd_server.models.payouts import Payout
from ussd_server.models.transactions import QUEUED_UNTIL
from ussd_server.runtime import Runtime
from ussd_server.services.accounts.ledger import DailyLimitError, OverdraftError, Postings
from ussd_server.services.payouts.digests import ItemsDigest, judged_rows
from ussd_server.services.payouts.drafts import used_lines
from ussd_server.services.payouts.queue import insert_queued, queued_batch
from ussd_server.services.payouts.rows import transaction_reference
from ussd_server.services.transactions.create import RequestIdentity, TransactionCreator, daily_limit_reached, digest_of
from ussd_server.services.transactions.history import Batch
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, TransactionType
from ussd_server.status import Code, ServiceError

# After so many rows, let other requests of the process run.
_ROWS_BEFORE_A_PAUSE = 50
_MOST_LINES_NAMED = 5
_TYPES = {"transaction_id": "uuid", "fee_cents": "bigint"}

Result = TypeVar("Result")


@dataclass(slots=True)
class DraftedRows:
    """The rows of a payout: the transactions, the id and the fee of each by its line, and the digest of all rows."""

    queued: list[tuple[Batch, Postings]] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)
    fees: dict[int, int] = field(default_factory=dict)
    items_digest: str = ""

    @property
    def total_fee_cents(self) -> int:
        """The fees of all rows."""
        return sum(self.fees.values())


class PayoutReservation:
    """Drafts the transactions of a payout and reserves their money."""

    def __init__(self, runtime: Runtime, creator: TransactionCreator) -> None:
        self._creator = creator
        self._at_kill_point = runtime.at_kill_point

    def attempt(self, payout: Payout, work: Callable[[], Result]) -> Result:
        """Return what `work` returns, which drafts and writes the rows; it is called again after a change of the fee.

        Raises INSUFFICIENT_BALANCE, DAILY_LIMIT_REACHED of the key, INVALID_REQUEST for references that were used
        since the draft was made, SERVICE_UNAVAILABLE while money is held, and what `work` raises.
        """
        self._creator.require_open()
        fees, fee = self._creator.fees, (payout.client_id, TransactionType.DISBURSEMENT)
        fees.forget(*fee)
        try:
            return fees.with_agreed_fee(*fee, work)
        except OverdraftError:
            raise _too_little() from None
        except DailyLimitError:
            raise daily_limit_reached() from None
        except IntegrityError:
            refuse_used_references(payout)
            raise

    def draft_rows(self, payout: Payout, key_id: str | None, request_id: str | None) -> DraftedRows:
        """The transactions of the ready rows with the fee that is agreed now, counted for the key. Nothing is kept."""
        drafted, items = DraftedRows(), ItemsDigest()
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
                request_id=request_id,
                key_id=key_id,
                description=item.description or payout.description,
                due_at=QUEUED_UNTIL,
            )
            drafted.queued.append(queued_batch(draft))
            drafted.ids[item.line], drafted.fees[item.line] = draft.row.id, draft.row.fee_cents
        drafted.items_digest = str(items)
        return drafted

    def reserve(self, row: Payout, drafted: DraftedRows, now: datetime) -> None:
        """Insert the transactions and reserve their money. Call in a `long_unit_of_work`, with the payout locked."""
        insert_queued(drafted.queued)
        self._at_kill_point("payout.reserved")
        write_by_line(row.id, "transaction_id", drafted.ids)
        row.total_fee_cents, row.reserved_at = drafted.total_fee_cents, now


def require_money(payout: Payout, fee_cents: int) -> None:
    """Raise INSUFFICIENT_BALANCE early, because the reservation is the last statement."""
    account = Holding(payout.client_id, MAIN_ACCOUNT)
    read_holdings([account])
    if account.balance_cents - account.reserved_cents < payout.total_amount_cents + fee_cents:
        raise _too_little()


def refuse_used_references(payout: Payout) -> None:
    """Raise INVALID_REQUEST when other transactions have taken references of ready rows."""
    if lines := used_lines(payout):
        named = ", ".join(map(str, lines[:_MOST_LINES_NAMED]))
        raise ServiceError(
            Code.INVALID_REQUEST, f"The references of these rows were used since the payout was created: {named}"
        )


def write_by_line(payout_id: str, column: str, values: Mapping[int, str | int]) -> None:
    """Write a column of every ready row, by its line."""
    # Not a join: if the planner expects a short payout, it compares every row with every line.
    value = dialect().json_value(":values", "'line' || line", _TYPES[column])
    run_query(
        f"UPDATE payout_items SET {column} = {value} WHERE payout_id = :payout_id AND is_ready",  # noqa: S608
        values=orjson.dumps({f"line{line}": value for line, value in values.items()}).decode(),
        payout_id=payout_id,
    )


def _too_little() -> ServiceError:
    return ServiceError(Code.INSUFFICIENT_BALANCE, "Insufficient balance for the payout and its fees")
