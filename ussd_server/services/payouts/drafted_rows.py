"""The rows of a payout as transactions, before they are reserved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson
from peewee import chunked

from ussd_server.database.unit_of_work import dialect, for_update, run_query
from ussd_server.models.payouts import Payout, transaction_reference
from ussd_server.models.transactions import QUEUED_UNTIL, Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.services.accounts.ledger import PROVIDER_ACCOUNT, Postings
from ussd_server.services.payouts.digests import ValidatedRow, digest_of_items, validated_rows
from ussd_server.services.payouts.queue import queued_batch
from ussd_server.services.transactions.create import DraftColumns, Plan, RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.history import Batch
from ussd_server.services.transactions.makers import maker_of_payout
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.threads import with_pauses

_TYPES = {"transaction_id": "uuid", "fee_cents": "bigint"}
_NAMES_AT_ONCE = 500


@dataclass(slots=True)
class DraftedRows:
    """Result of drafting: digest of all rows; for ready rows the transactions, and ids and fees by line number.

    `names`: the provider references of cancelled rows that these rows have now, and for each the one that takes its
    place there.
    """

    items_digest: str
    queued: list[tuple[Batch, Postings]] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)
    fees: dict[int, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

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
    names = _earlier_names(creator, payout, items)
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
        if (name := names.get(item.line)) is not None:
            drafted.names[name], draft.row.provider_reference = draft.row.provider_reference, name
        drafted.queued.append(queued_batch(draft, limit_cents))
        drafted.ids[item.line], drafted.fees[item.line] = draft.row.id, draft.row.fee_cents
    return drafted


def release_names(names: Mapping[str, str]) -> None:
    """Give cancelled transactions, which were never sent, the second name of each pair instead of the first one.

    Their providers are not queried any more: the transactions that get the first names query them. Call in a unit of
    work. Raises SERVICE_UNAVAILABLE while a provider is queried about one, and when operators review one.
    """
    for some in chunked(names, _NAMES_AT_ONCE):
        named = Transaction.provider_reference.in_(some)
        rows = list(for_update(Transaction.select().where(named).order_by(Transaction.id)))
        if not all(map(_is_released, rows)):
            raise ServiceError(
                Code.SERVICE_UNAVAILABLE,
                "A provider is queried about rows that were withdrawn, or operators review them; approve again later",
                retry_after_seconds=60,
            )
        run_query(
            f"UPDATE transactions SET provider_reference = found.name, due_at = NULL "  # noqa: S608
            f"FROM {dialect().json_rows({'id': 'uuid', 'name': 'uuid'})} WHERE transactions.id = found.id",
            rows=orjson.dumps([{"id": row.id, "name": names[row.provider_reference]} for row in rows]).decode(),
        )


def _is_released(row: Transaction) -> bool:
    is_reviewed = row.review_opened_at is not None and row.review_closed_at is None
    return row.failure_code == FailureCode.CANCELLED and row.leased_until is None and not is_reviewed


def _earlier_names(creator: TransactionCreator, payout: Payout, items: Sequence[ValidatedRow]) -> dict[int, str]:
    """The provider references that rows have had in payouts and reservations that were cancelled unsent, by line.

    A database that lost commits does not know what has left: under the same name, the provider refuses a second
    payment. A row that was sent, or found paid, keeps its name; of what was paid, the gate sends nothing.
    """
    names: dict[int, str] = {}
    if payout.reservation_number == 1 and payout.copied_from is None:
        return names
    first = payout.copied_from or payout.id
    same = Payout.select(Payout.reference).where((Payout.id == first) | (Payout.copied_from == first))
    # The first one that a row can have: a later one was given in exchange for it, and no provider knows that.
    for each in same.order_by(Payout.id):
        lines = {
            creator.references.of_reference(
                payout.client_id, TransactionType.DISBURSEMENT, transaction_reference(each.reference, item.reference, 1)
            ): item.line
            for item in items
            if item.is_ready and item.line not in names
        }
        for some in chunked(lines, _NAMES_AT_ONCE):
            unsent = Transaction.select(Transaction.provider_reference).where(
                Transaction.provider_reference.in_(some),
                Transaction.failure_code == FailureCode.CANCELLED,
                Transaction.asked_at.is_null(),
                Transaction.payout_id.is_null(False),
            )
            names |= {lines[row.provider_reference]: row.provider_reference for row in unsent}
    return names


def write_by_line(payout_id: str, column: str, values: Mapping[int, str | int]) -> None:
    """Write a column of every ready row, by its line."""
    # Not a join: if the planner expects a short payout, it compares every row with every line.
    value = dialect().json_value(":values", "'line' || line", _TYPES[column])
    run_query(
        f"UPDATE payout_items SET {column} = {value} WHERE payout_id = :payout_id AND is_ready",  # noqa: S608
        values=orjson.dumps({f"line{line}": value for line, value in values.items()}).decode(),
        payout_id=payout_id,
    )
