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
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, TransactionStatus, TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.threads import with_pauses

_TYPES = {"transaction_id": "uuid", "fee_cents": "bigint"}
_NAMES_AT_ONCE = 500


@dataclass(slots=True)
class DraftedRows:
    """Result of drafting: digest of all rows; for ready rows the transactions, and ids and fees by line number.

    `names`: the provider references that rows have had in withdrawn reservations and keep, and for each the one that
    takes its place there.
    """

    items_digest: str
    queued: list[tuple[Batch, Postings]] = field(default_factory=list)
    ids: dict[int, str] = field(default_factory=dict)
    fees: dict[int, int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def total_fee_cents(self) -> int:
        """The fees of all rows."""
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
    names = _first_names(creator, payout, items)
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
        if (name := names.get(item.line)) is not None:
            columns["provider_reference"] = name
            drafted.names[name] = creator.references.of_request(identity)
        holds = (MAIN_ACCOUNT, PROVIDER_ACCOUNT.format(item.provider))
        plan = Plan(item.amount_cents or 0, columns, holds, due_at=QUEUED_UNTIL, made_by=made_by)
        draft = creator.draft(identity, plan)
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


def _first_names(creator: TransactionCreator, payout: Payout, items: Sequence[ValidatedRow]) -> dict[int, str]:
    """The provider references that rows keep after a withdrawn reservation, by line.

    A database that lost commits does not know what has left: under the same name, the provider refuses a second
    payment. A row that was found paid has another name; the gate does not send it.
    """
    if payout.reservation_number == 1:
        return {}
    lines = {
        creator.references.of_reference(
            payout.client_id,
            TransactionType.DISBURSEMENT,
            transaction_reference(payout.reference, item.reference, 1),
        ): item.line
        for item in with_pauses(items)
        if item.is_ready
    }
    for some in chunked(list(lines), _NAMES_AT_ONCE):
        paid = Transaction.select(Transaction.provider_reference).where(
            Transaction.provider_reference.in_(some), Transaction.status != TransactionStatus.FAILED
        )
        for row in paid:
            del lines[row.provider_reference]
    return {line: name for name, line in lines.items()}


def write_by_line(payout_id: str, column: str, values: Mapping[int, str | int]) -> None:
    """Write a column of every ready row, by its line."""
    # Not a join: if the planner expects a short payout, it compares every row with every line.
    value = dialect().json_value(":values", "'line' || line", _TYPES[column])
    run_query(
        f"UPDATE payout_items SET {column} = {value} WHERE payout_id = :payout_id AND is_ready",  # noqa: S608
        values=orjson.dumps({f"line{line}": value for line, value in values.items()}).decode(),
        payout_id=payout_id,
    )
