"""The rows of a payout as transactions, before they are reserved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from ussd_server.database.unit_of_work import dialect, run_query
from ussd_server.models.payouts import Payout, transaction_reference
from ussd_server.models.transactions import QUEUED_UNTIL
from ussd_server.services.accounts.ledger import PROVIDER_ACCOUNT, Postings
from ussd_server.services.payouts.digests import digest_of_items, validated_rows
from ussd_server.services.payouts.queue import queued_batch
from ussd_server.services.transactions.create import DraftColumns, Plan, RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.history import Batch
from ussd_server.services.transactions.makers import maker_of_payout
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, TransactionType
from ussd_server.threads import with_pauses

_TYPES = {"transaction_id": "uuid", "fee_cents": "bigint"}


@dataclass(slots=True)
class DraftedRows:
    """Result of drafting: digest of all rows; for ready rows the transactions, and ids and fees by line number."""

    items_digest: str
    queued: list[tuple[Batch, Postings]] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)
    fees: dict[int, int] = field(default_factory=dict)

    @property
    def total_fee_cents(self) -> int:
        return sum(self.fees.values())


class RowSender(NamedTuple):
    """The key or the person that approved a payout, and the request id for its rows."""

    key_id: str | None
    user_id: str | None
    request_id: str | None


def draft_rows(creator: TransactionCreator, payout: Payout, sender: RowSender, limit_cents: int | None) -> DraftedRows:
    """The transactions of the ready rows with the fee that is agreed now, read afresh. Nothing is written.

    They are counted for the key of the sender, up to `limit_cents`, its daily limit at the approval.
    """
    creator.fees.forget(payout.client_id, TransactionType.DISBURSEMENT)
    items, made_by = validated_rows(payout.id), maker_of_payout(payout)
    drafted = DraftedRows(digest_of_items(items))
    for item in with_pauses(items):
        if not item.is_ready:
            continue
        reference = transaction_reference(payout.reference, item.reference, payout.reservation_number)
        identity = RequestIdentity(
            payout.client_id,
            TransactionType.DISBURSEMENT,
            digest_of({"payout_id": payout.id, "line": item.line}),
            reference,
        )
        columns = DraftColumns(
            phone_number=item.phone_number,
            provider=item.provider,
            account=MAIN_ACCOUNT,
            operator=payout.operator,
            payout_id=payout.id,
            description=item.description or payout.description,
            key_id=sender.key_id,
            user_id=sender.user_id,
            request_id=sender.request_id,
        )
        holds = (MAIN_ACCOUNT, PROVIDER_ACCOUNT.format(item.provider))
        plan = Plan(item.amount_cents or 0, columns, holds, due_at=QUEUED_UNTIL, made_by=made_by)
        draft = creator.draft(identity, plan)
        drafted.queued.append(queued_batch(draft, limit_cents))
        drafted.ids[item.line], drafted.fees[item.line] = draft.row.id, draft.row.fee_cents
    return drafted


def write_by_line(payout_id: str, column: str, values: Mapping[int, str | int]) -> None:
    """Write a column of every ready row, by its line."""
    # Not a join: if the planner expects a short payout, it compares every row with every line.
    value = dialect().json_value(":values", "'line' || line", _TYPES[column])
    run_query(
        f"UPDATE payout_items SET {column} = {value} WHERE payout_id = :payout_id AND is_ready",  # noqa: S608
        values=orjson.dumps({f"line{line}": value for line, value in values.items()}).decode(),
        payout_id=payout_id,
    )
