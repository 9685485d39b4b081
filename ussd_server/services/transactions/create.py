"""Creation of transactions: draft, legs, insert; after a refusal, the earlier transaction of the same names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from datetime import datetime
from itertools import chain
from typing import Any, TypedDict, Unpack

import orjson
from peewee import IntegrityError

from ussd_server.database.tables import values_of
from ussd_server.database.unit_of_work import GroupCommit, database, dialect
from ussd_server.logs import current_traceparent
from ussd_server.models.clients import Client
from ussd_server.models.events import Event
from ussd_server.models.transactions import StatusChange, Transaction
from ussd_server.runtime import Runtime, Service
from ussd_server.services.accounts.fees import FeeBook, fee_cents
from ussd_server.services.accounts.ledger import (
    DailyLimitError,
    Leg,
    OverdraftError,
    Postings,
    Rows,
    named_refusals,
    postings_of,
)
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.transactions.history import first_rows, view_of, views_of
from ussd_server.services.transactions.messages import (
    CreatedTransaction,
    Origin,
    Source,
    TransactionStatus,
    TransactionType,
    TransactionView,
)
from ussd_server.services.transactions.names import RequestIdentity, find_repeated
from ussd_server.status import Code, ServiceError
from ussd_server.values import kampala_day, new_id


@dataclass(frozen=True, slots=True)
class Draft:
    """A transaction that is not inserted yet, and the terms of its fee."""

    row: Transaction
    terms: FeeTerms


class DraftColumns(TypedDict, total=False):
    """Columns of a draft beside its names, its amount and its fee."""

    phone_number: str | None
    to_phone_number: str | None
    provider: str | None
    provider_transaction_id: str | None
    account: str | None
    description: str | None
    metadata: dict[str, Any] | None
    callback_url: str | None
    request_id: str | None
    refund_of: str
    payout_id: str
    key_id: str | None
    origin: Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Postings):
    """What is inserted together: rows of tables.

    `settled` are the ids of transactions that are succeeded as soon as their legs are written. `fees` are the terms
    from which the fees of the transactions were computed.
    """

    transactions: Rows
    changes: Rows
    events: Rows
    settled: Sequence[str]
    fees: Rows


Prepared = tuple[Draft, Collection[Leg]]
Prepare = Callable[[RequestIdentity], Prepared]
Within = Callable[[Transaction], AbstractContextManager[None]]


class TransactionCreator(Service):
    """Creates transactions, each once under its names: row, history, events and money together or not at all."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime)
        self.fees = FeeBook()
        self._is_held = runtime.settings.hold_money
        self._group_commit = GroupCommit(_write_batches)

    def create(
        self, identity: RequestIdentity, prepare: Prepare, source: Source = Source.SUBMIT, within: Within | None = None
    ) -> CreatedTransaction:
        """Insert what `prepare` drafts, with its legs, or return the transaction that an equal request created before.

        Commits in one batch with other callers' drafts; with `within`, in its unit of work, which locks what the draft
        depends on and writes what belongs to it. `prepare` is called again after a change of the fee, and with the next
        number of the request's place when another payment has this one.

        Names are looked up only after a refusal: few requests are repeats, and the database refuses every repeat by
        its names. Raises IDEMPOTENCY_KEY_REUSED when a name was used for something else, INSUFFICIENT_BALANCE when an
        account has too little available, DAILY_LIMIT_REACHED when the key may not pay that much more today,
        SERVICE_UNAVAILABLE for clients while money is held, and what `prepare` and `within` raise; nothing is inserted
        then.
        """
        try:
            if source is not Source.OPERATOR:
                self.require_open()
            elif Client.select().where(Client.id == identity.client_id, Client.moved_at.is_null(False)).exists():
                raise ServiceError(Code.INVALID_REQUEST, "The client was moved to another installation")
            view = self.fees.with_agreed_fee(
                identity.client_id, identity.type, lambda: self._insert(*prepare(identity), source, within)
            )
        except (ServiceError, IntegrityError, OverdraftError, DailyLimitError) as refusal:
            repeated = find_repeated(identity, self._clock.now())
            if repeated is not None:
                return CreatedTransaction(views_of([repeated])[0], replayed=True)
            if isinstance(refusal, ServiceError):
                raise
            if isinstance(refusal, DailyLimitError):
                raise daily_limit_reached() from None
            if isinstance(refusal, OverdraftError):
                raise ServiceError(
                    Code.INSUFFICIENT_BALANCE, "Insufficient balance to complete the transaction"
                ) from None
            numbered = self._references.next_at_place(identity)
            if numbered == identity:
                raise AssertionError("a constraint refused a transaction that has no twin") from refusal
            return self.create(numbered, prepare, source, within)
        return CreatedTransaction(view, replayed=False)

    def require_open(self) -> None:
        """Raise SERVICE_UNAVAILABLE while the operator holds new money (`USSD_HOLD_MONEY`)."""
        if self._is_held:
            raise ServiceError(
                Code.SERVICE_UNAVAILABLE,
                "No payment is created while the operator restores the service; nothing was recorded, retry later",
                retry_after_seconds=60,
            )

    def draft(
        self,
        identity: RequestIdentity,
        amount_cents: int,
        due_at: datetime | None = None,
        **columns: Unpack[DraftColumns],
    ) -> Draft:
        """A new transaction with its fee and, where a provider moves the money, its name there. Due now by default."""
        now = self._clock.now()
        name = self._references.of_request(identity) if columns.get("provider") else None
        terms = self.fees.find(identity.client_id, identity.type)
        columns.setdefault("origin", Origin.USSD if identity.session_id else Origin.CLIENT)
        row = Transaction(__no_default__=True)
        row.__data__ |= dict(
            id=new_id(now),
            client_id=identity.client_id,
            type=identity.type,
            status=TransactionStatus.CREATED,
            currency="UGX",
            amount_cents=amount_cents,
            fee_cents=fee_cents(terms, amount_cents),
            reference=identity.reference,
            idempotency_key=identity.idempotency_key,
            session_id=identity.session_id,
            confirmation=identity.confirmation,
            request_digest=identity.digest,
            late=False,
            ask_attempts=0,
            checks=0,
            created_at=now,
            updated_at=now,
            due_at=due_at or now,
            due_source=Source.POLL,
            provider_reference=name,
            traceparent=current_traceparent(),
            **columns,
        )
        return Draft(row, terms)

    def _insert(self, draft: Draft, legs: Collection[Leg], source: Source, within: Within | None) -> TransactionView:
        """Raises OverdraftError, AnotherFeeError, and IntegrityError for a name that is taken."""
        batch, view = batch_of(draft, legs, source)
        if within is None:
            # The caller that wrote the batch wakes the worker for all transactions in it.
            written = self._group_commit.do(batch)
        else:
            with within(draft.row):
                write_batch(batch)
            written = [batch]
        if any("provider" in row for batch in written for row in batch.transactions):
            self._wake_worker()
        return view


def batch_of(draft: Draft, legs: Collection[Leg], source: Source) -> tuple[Batch, TransactionView]:
    """What is written for a draft, and its view. Money that moves at once makes the transaction succeeded."""
    row, terms = draft.row, draft.terms
    transaction = values_of(row)
    view = view_of(row)
    changes, settled = [first_rows(row.client_id, view, 1, source)], []
    if any(leg.kind == "move" for leg in legs):
        row.status, row.completed_at, row.due_at = TransactionStatus.SUCCEEDED, row.created_at, None
        view = view_of(row)
        changes.append(first_rows(row.client_id, view, 2, source))
        settled.append(row.id)
    postings = postings_of(row.client_id, row.id, legs, row.created_at)
    batch = Batch(
        accounts=postings.accounts,
        legs=postings.legs,
        transactions=[transaction],
        changes=[change for change, _ in changes],
        events=[event for _, event in changes],
        spending=spending_of(row) if legs else (),
        settled=settled,
        fees=[
            {
                "client_id": row.client_id,
                "type": row.type,
                "fixed_cents": terms.fixed_cents,
                "share_basis_points": terms.share_basis_points,
            }
        ],
    )
    return batch, view


def spending_of(row: Transaction) -> Rows:
    """What a transaction that leaves counts towards the daily limit of the key that pays it."""
    if row.key_id is None or row.type not in (TransactionType.DISBURSEMENT, TransactionType.REFUND):
        return ()
    return [{"key_id": row.key_id, "day": kampala_day(row.created_at), "cents": row.amount_cents + row.fee_cents}]


def daily_limit_reached() -> ServiceError:
    """The refusal of a payment beyond the daily limit of its key."""
    return ServiceError(
        Code.DAILY_LIMIT_REACHED, "More than the API key may still pay today; GET /api/key shows what is left"
    )


def merged(batches: Sequence[Batch]) -> Batch:
    """One batch of several, in their order."""
    parts = (part.name for part in fields(Batch))
    return Batch(**{part: list(chain.from_iterable(getattr(batch, part) for batch in batches)) for part in parts})


def write_batch(batch: Batch) -> None:
    """Write a batch, all of it or nothing, as a transaction of its own or in the unit of work that is open.

    The database takes it as one document (`database/schema/postgres/batches.sql`): one round trip to PostgreSQL.
    Raises OverdraftError, DailyLimitError, AnotherFeeError, and IntegrityError for a name that is taken.
    """
    with named_refusals():
        dialect().record_transactions(orjson.dumps(batch).decode(), _COLUMNS)


_COLUMNS = {
    "transactions": list(Transaction._meta.columns),
    "changes": list(StatusChange._meta.columns),
    "events": list(Event._meta.columns),
}


def _write_batches(batches: Sequence[Batch]) -> None:
    assert not database.in_transaction(), "a caller must not get a result whose commit is still to come"
    # In one order of names, so that two groups cannot wait for each other.
    batches = sorted(batches, key=_first_name)
    write_batch(batches[0] if len(batches) == 1 else merged(batches))


def _first_name(batch: Batch) -> tuple[str, str]:
    (row,) = batch.transactions
    return row["client_id"], row["reference"]
