"""Recording: new transactions, each once under its names, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import IntegrityError, Query

from ussd_server.clock import Clock
from ussd_server.database.columns import values_of
from ussd_server.database.compiled_queries import CompiledQuery, param
from ussd_server.database.group_commit import GroupCommit
from ussd_server.database.ids import new_id
from ussd_server.database.unit_of_work import database, unit_of_work
from ussd_server.messages.fees import FeeTerms
from ussd_server.messages.transactions import CreatedTransaction, Source, TransactionStatus, TransactionType
from ussd_server.models.transactions import IdempotencyKey, Transaction
from ussd_server.services.transactions.batch import AnotherFeeError, Batch, OverdraftError, merged, write_batch
from ussd_server.services.transactions.fees import FeeBook, fee_cents
from ussd_server.services.transactions.history import first_rows, view_of
from ussd_server.services.transactions.ledger import PROVIDER_ACCOUNT, Leg, legs_of, postings_of
from ussd_server.status import Code, ServiceError

# Digests are kept for ever, so this form never changes.
_DIGESTED = json.JSONEncoder(sort_keys=True, default=str).encode


@dataclass(frozen=True, slots=True)
class TransactionNames:
    """What a transaction of a client is known by: what a repeat repeats at least one of.

    An operator's deposits are named by the operator, all else by the client, and neither takes names from the other.
    """

    client_id: str
    reference: str
    idempotency_key: str | None = None
    session_id: str | None = None
    confirmation: str | None = None
    is_deposit: bool = False


@dataclass(frozen=True, slots=True)
class Draft:
    """A transaction that was not recorded yet, and the terms of its fee."""

    row: Transaction
    terms: FeeTerms


class TransactionWriter:
    """Records transactions: row, story, events and money together."""

    def __init__(self, clock: Clock, wake_worker: Callable[[], None]) -> None:
        """`wake_worker` is called after a transaction that needs a company is committed; it must not raise."""
        self._clock = clock
        self._wake_worker = wake_worker
        self._fees = FeeBook()
        # While one group waits for the disk another can be worked on; SQLite has one writer.
        self._together = GroupCommit(_write_together)

    def once(self, names: TransactionNames, digest: str, record: Callable[[], Transaction]) -> CreatedTransaction:
        """What `record` records, or what was recorded under one of the names before.

        The names are looked up after a refusal only: most calls are no repeats, and a repeat is refused at the latest
        by the names themselves. A repeat's idempotency key is bound to what it repeats.
        IDEMPOTENCY_KEY_REUSED when a name was used for something else.
        """
        while True:
            try:
                return CreatedTransaction(view_of(record()), replayed=False)
            except AnotherFeeError:
                continue
            except (ServiceError, IntegrityError) as refusal:
                if (known := _recorded_under(names, digest, self._clock)) is not None:
                    return known
                if isinstance(refusal, IntegrityError):
                    raise AssertionError("a constraint refused a transaction that has no twin") from refusal
                raise

    def draft(
        self, client_id: str, kind: TransactionType, amount_cents: int, reference: str, digest: str, **more: object
    ) -> Draft:
        """A new transaction with its fee; `more` are further columns."""
        now = self._clock.now()
        terms = self._fees.find(client_id, kind)
        row = Transaction(__no_default__=True)
        row.__data__ |= dict(
            id=new_id(now), client_id=client_id, type=kind, status=TransactionStatus.CREATED, currency="UGX",
            amount_cents=amount_cents, fee_cents=fee_cents(terms, amount_cents), reference=reference,
            request_digest=digest, late=False, ask_attempts=0, checks=0, created_at=now, updated_at=now, due_at=now,
            due_source=Source.POLL,
            # The name by which the company will know it is chosen now, so that it is stored before anything is sent.
            provider_reference=str(uuid.uuid4()) if more.get("provider") else None,
            **more,
        )  # fmt: skip
        return Draft(row, terms)

    def record(
        self,
        draft: Draft,
        legs: Collection[Leg] = (),
        source: Source = Source.SUBMIT,
        guard: Callable[[], None] | None = None,
    ) -> Transaction:
        """Record a draft with its money. Money that moves at once makes it succeeded.

        `guard` is called first, within the same database transaction, and may refuse. INSUFFICIENT_BALANCE when the
        account here is too low; IntegrityError for a name that is taken; AnotherFeeError when its fee is not what is
        agreed now: draft it again.
        """
        written: Sequence[Batch] = [batch_of(draft, legs, source)]
        try:
            if guard is None:
                written = self._together.do(written[0])
            else:
                _write_guarded(written[0], guard)
        except OverdraftError:
            raise ServiceError(Code.INSUFFICIENT_BALANCE, "Insufficient balance to complete the transaction") from None
        except AnotherFeeError:
            self._fees.forget(draft.terms)
            raise
        # Whoever wrote for others wakes the worker for them.
        if any("provider" in row for batch in written for row in batch.transactions):
            self._wake_worker()
        return draft.row


def _write_guarded(batch: Batch, guard: Callable[[], None]) -> None:
    with unit_of_work():
        guard()
        write_batch(batch)


def hold_of(row: Transaction) -> list[Leg]:
    """The legs that reserve a payment that leaves, and its fee, on the account that pays."""
    return legs_of(row, "hold", row.account, PROVIDER_ACCOUNT.format(row.provider), fee_from=row.account)


def digest_of(content: dict[str, object]) -> str:
    """What tells a repeat from another wish under the same name."""
    return hashlib.sha256(_DIGESTED(content).encode()).hexdigest()


def _recorded_under(names: TransactionNames, digest: str, clock: Clock) -> CreatedTransaction | None:
    key = names.idempotency_key
    bound = _BOUND.first(IdempotencyKey, client_id=names.client_id, key=key) if key is not None else None
    found = (_NAMED_DEPOSIT if names.is_deposit else _NAMED).rows(
        Transaction, client_id=names.client_id, reference=names.reference, idempotency_key=names.idempotency_key,
        session_id=names.session_id, confirmation=names.confirmation, bound_id=bound and bound.transaction_id,
    )  # fmt: skip
    if not found:
        return None
    if len(found) > 1 or found[0].request_digest != digest:
        raise ServiceError(
            Code.IDEMPOTENCY_KEY_REUSED, "The reference or idempotency key was used for a different request"
        )
    (row,) = found
    if key is not None and bound is None and row.idempotency_key != key:
        try:
            IdempotencyKey.insert(
                client_id=names.client_id, key=key, transaction_id=row.id, created_at=clock.now()
            ).execute()
        except IntegrityError:
            # Another call has bound the key meanwhile, to this transaction or to another one.
            return _recorded_under(names, digest, clock)
    return CreatedTransaction(view_of(row), replayed=True)


def _named(kind: Any) -> Query:
    """Transactions under any of a client's names; a name that is null is nobody's."""
    return Transaction.select().where(
        Transaction.client_id == param(Transaction.client_id),
        ((Transaction.reference == param(Transaction.reference)) & kind)
        | (Transaction.idempotency_key == param(Transaction.idempotency_key))
        | (Transaction.id == param(Transaction.id, "bound_id"))
        | (
            (Transaction.session_id == param(Transaction.session_id))
            & (Transaction.confirmation == param(Transaction.confirmation))
        ),
    )


_BOUND = CompiledQuery(
    lambda: IdempotencyKey.select().where(
        IdempotencyKey.client_id == param(IdempotencyKey.client_id), IdempotencyKey.key == param(IdempotencyKey.key)
    )
)
_NAMED = CompiledQuery(lambda: _named(Transaction.type != TransactionType.DEPOSIT))
_NAMED_DEPOSIT = CompiledQuery(lambda: _named(Transaction.type == TransactionType.DEPOSIT))


def _write_together(batches: Sequence[Batch]) -> None:
    assert not database.in_transaction(), "nobody is told of a commit that is still to come"
    # In one order of names, so that two groups cannot wait for each other.
    batches = sorted(batches, key=_first_name)
    write_batch(batches[0] if len(batches) == 1 else merged(batches))


def _first_name(batch: Batch) -> tuple[str, str]:
    (row,) = batch.transactions
    return row["client_id"], row["reference"]


def batch_of(draft: Draft, legs: Collection[Leg], source: Source) -> Batch:
    """What is written for a draft; its row becomes succeeded where money moves at once."""
    row, terms = draft.row, draft.terms
    transaction = values_of(row)
    steps, settled = [first_rows(row, 1, source)], []
    if any(leg.kind == "move" for leg in legs):
        row.status, row.completed_at, row.due_at = TransactionStatus.SUCCEEDED, row.created_at, None
        steps.append(first_rows(row, 2, source))
        settled.append(row.id)
    postings = postings_of(row.client_id, row.id, legs, row.created_at)
    return Batch(
        accounts=postings.accounts,
        legs=postings.legs,
        transactions=[transaction],
        story=[step for step, _ in steps],
        events=[event for _, event in steps],
        settled=settled,
        fees=[
            {"client_id": row.client_id, "type": row.type, "fixed_cents": terms.fixed_cents,
             "share_basis_points": terms.share_basis_points}
        ],
    )  # fmt: skip
