"""Create a transaction exactly once: plan, draft, insert. On a duplicate key, return the existing one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

from peewee import IntegrityError, Query

from ussd_server.database.tables import CompiledQuery, param, row_of
from ussd_server.database.unit_of_work import GroupCommit, database
from ussd_server.logs import current_traceparent
from ussd_server.models.transactions import IdempotencyKey, Transaction
from ussd_server.services.accounts.ledger import (
    AnotherFeeError,
    DailyLimitError,
    FeeBook,
    Leg,
    OverdraftError,
    fee_cents,
    legs_of,
)
from ussd_server.services.gates.messages import MONEY_OUT, Sending
from ussd_server.services.gates.sending import SendingGate
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.history import Batch, Draft, batch_of, merged, views_of, write_batch
from ussd_server.services.transactions.makers import makers_of
from ussd_server.services.transactions.messages import (
    CreatedTransaction,
    Effect,
    MadeBy,
    Origin,
    Source,
    TransactionStatus,
    TransactionType,
    TransactionView,
)
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id

RECOVERED = "recovered"
"""Stands for the digest of a recovered transaction, whose request is unknown."""


# Digests are stored for ever, so this encoding never changes.
_encode_content = json.JSONEncoder(sort_keys=True, default=str).encode


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """The keys of a request (reference, idempotency key, USSD step) and its digest. A repeat has a key and the digest.

    A USSD step is `session_id` and `confirmation`; `menu_step` is the same in words that outlast the session, with
    `step_number` 1 for its first payment, 2 for the next. `content` holds the fields that are also columns: a refusal
    lists those that differ. Deposits have references of their own: the operator and a client may use the same one.
    """

    client_id: str
    type: TransactionType
    digest: str
    reference: str
    idempotency_key: str | None = None
    session_id: str | None = None
    confirmation: str | None = None
    menu_step: Sequence[str] | None = None
    step_number: int = 1
    content: Mapping[str, object] = field(default_factory=dict)


def digest_of(content: dict[str, object]) -> str:
    """SHA-256 of a request's content, to recognise a repeat: without nulls, so that an optional field can be added."""
    said = {name: value for name, value in content.items() if value is not None}
    return hashlib.sha256(_encode_content(said).encode()).hexdigest()


class DraftColumns(TypedDict, total=False):
    """The optional columns of a new transaction. Fields of `CreateTransaction` need no line here."""

    phone_number: str | None
    to_phone_number: str | None
    provider: str | None
    provider_account: str | None
    provider_transaction_id: str | None
    account: str | None
    description: str | None
    metadata: dict[str, Any] | None
    callback_url: str | None
    request_id: str | None
    refund_of: str
    payout_id: str
    key_id: str | None
    user_id: str | None
    menu_id: str | None
    menu_version: int | None
    operator: str | None
    effect: Effect
    corrects: str | None
    reason: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Plan:
    """A transaction to create: its amount, its other columns, and the money that is reserved or moved at once.

    `holds` and `moves` are two accounts: `holds` reserves the amount on the first for the second, `moves` pays it to
    the second; the transaction's own account pays the fee. Neither: the money moves later. `lacking_cents` is what
    its own account lacks, which becomes the client's shortfall. `due_at` None: due now.
    `made_by` None: the creator reads the maker's name from the database. `fee_cents` None: the fee that is agreed now.
    """

    amount_cents: int
    columns: DraftColumns
    holds: tuple[str, str] | None = None
    moves: tuple[str, str] | None = None
    lacking_cents: int = 0
    due_at: datetime | None = None
    made_by: MadeBy | None = None
    fee_cents: int | None = None


Within = Callable[[Transaction], AbstractContextManager[None]]
"""Opens the unit of work in which a new transaction, its argument, is inserted."""


class TransactionCreator:
    """Creates each transaction once; writes row, history, events and postings in one database transaction."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self.references, self._wake_worker = runtime.clock, runtime.references, runtime.wake_up.send
        self.fees, self.gate = FeeBook(), SendingGate(runtime)
        self._group_commit = GroupCommit(_write_batches)

    def create(
        self,
        identity: RequestIdentity,
        plan: Plan | ServiceError,
        source: Source = Source.SUBMIT,
        within: Within | None = None,
        sending: Sending | None = None,
    ) -> CreatedTransaction:
        """Write the transaction of a request once, or return the one that an equal request created before.

        Commits in one batch with other callers' transactions; with `within`, in its unit of work, which locks what the
        transaction depends on and writes what belongs to it. `sending` is what the gate admitted (`SendingGate.admit`),
        for every type that takes money from the client, and only for these.

        Raises IDEMPOTENCY_KEY_REUSED when a key of the request belongs to another one, INSUFFICIENT_BALANCE when an
        account has too little available, DAILY_LIMIT_REACHED when the API key may not pay that much more today,
        SERVICE_UNAVAILABLE for clients while money is held, what the gate raises, the error passed as `plan`, and what
        `within` raises; nothing is inserted then. A repeat gets its transaction, even if it would be refused now.
        """
        assert (sending is None) == (identity.type not in MONEY_OUT), "money leaves by a way that the gate knows"
        while True:
            try:
                if sending is not None:
                    self.gate.require_allowed(sending)
                if source is not Source.OPERATOR:
                    self.gate.require_open()
                if isinstance(plan, ServiceError):
                    raise plan
                return CreatedTransaction(self._insert(self.draft(identity, plan), source, within), replayed=False)
            except AnotherFeeError:
                self.fees.forget(identity.client_id, identity.type)
            except (ServiceError, IntegrityError, OverdraftError, DailyLimitError) as refusal:
                # Few requests are repeats, so the keys are looked up only after a refusal: they are unique columns.
                earlier = _find_earlier(identity, self._clock.now())
                if earlier is not None:
                    return CreatedTransaction(views_of([earlier])[0], replayed=True)
                match refusal:
                    case ServiceError():
                        raise
                    case OverdraftError():
                        raise ServiceError(
                            Code.INSUFFICIENT_BALANCE, "Insufficient balance to complete the transaction"
                        ) from None
                    case DailyLimitError():
                        raise daily_limit_reached() from None
                    case IntegrityError():
                        # Another payment of the same menu step has this provider reference.
                        next_identity = self.references.with_next_step_number(identity)
                        assert next_identity != identity, "only a taken key of the request refuses an insert"
                        identity = next_identity

    def draft(self, identity: RequestIdentity, plan: Plan) -> Draft:
        """The row and the legs of a plan, with the fee and, if a provider moves the money, the provider reference."""
        now, columns = self._clock.now(), plan.columns
        provider_reference = self.references.of_request(identity) if columns.get("provider") else None
        terms = self.fees.find(identity.client_id, identity.type)
        values = {
            "id": new_id(now),
            "client_id": identity.client_id,
            "type": identity.type,
            "status": TransactionStatus.CREATED,
            "currency": "UGX",
            "amount_cents": plan.amount_cents,
            "fee_cents": fee_cents(terms, plan.amount_cents) if plan.fee_cents is None else plan.fee_cents,
            "reference": identity.reference,
            "idempotency_key": identity.idempotency_key,
            "session_id": identity.session_id,
            "confirmation": identity.confirmation,
            "request_digest": identity.digest,
            "late": False,
            "ask_attempts": 0,
            "checks": 0,
            "created_at": now,
            "updated_at": now,
            "due_at": plan.due_at or now,
            "due_source": Source.POLL,
            "provider_reference": provider_reference,
            "traceparent": current_traceparent(),
            "origin": Origin.USSD if identity.session_id else Origin.CLIENT,
        }
        row = row_of(Transaction, values | columns)
        legs: Sequence[Leg] = ()
        if plan.holds:
            legs = legs_of(row, "hold", *plan.holds)
        elif plan.moves:
            legs = legs_of(row, "move", *plan.moves, plan.lacking_cents)
        return Draft(row, terms, plan.made_by or makers_of([row])[row.id], legs)

    def _insert(self, draft: Draft, source: Source, within: Within | None) -> TransactionView:
        """Raises OverdraftError, DailyLimitError, AnotherFeeError, and IntegrityError for a key that is taken."""
        batch, view = batch_of(draft, source)
        if within is None:
            # The caller that wrote the batch wakes the worker for all; rows without a provider have no such key.
            written = self._group_commit.do(batch)
        else:
            with within(draft.row):
                write_batch(batch)
            written = [batch]
        if any("provider" in row for batch in written for row in batch.transactions):
            self._wake_worker()
        return view


def daily_limit_reached() -> ServiceError:
    return ServiceError(
        Code.DAILY_LIMIT_REACHED, "More than the API key may still pay today; GET /api/key shows what is left"
    )


def _write_batches(batches: Sequence[Batch]) -> None:
    assert not database.in_transaction(), "a caller must not get a result whose commit is still to come"
    # Sort to lock in the same order everywhere, so that two groups cannot deadlock.
    batches = sorted(batches, key=_lock_order)
    write_batch(batches[0] if len(batches) == 1 else merged(batches))


def _lock_order(batch: Batch) -> tuple[str, str]:
    (row,) = batch.transactions
    return row["client_id"], row["reference"]


def _find_earlier(identity: RequestIdentity, now: datetime) -> Transaction | None:
    """Return the transaction that an equal request created before; bind the request's idempotency key to it.

    Raises IDEMPOTENCY_KEY_REUSED when a key of the request belongs to another one.
    """
    key = identity.idempotency_key
    bound_key = None if key is None else _BOUND_KEY.first(IdempotencyKey, client_id=identity.client_id, key=key)
    rows = (_DEPOSIT_BY_KEYS if identity.type is TransactionType.DEPOSIT else _PAYMENT_BY_KEYS).rows(
        Transaction,
        client_id=identity.client_id,
        reference=identity.reference,
        session_id=identity.session_id,
        confirmation=identity.confirmation,
        bound_id=bound_key and bound_key.transaction_id,
    )
    if not rows:
        return None
    row: Transaction = rows[0]
    if len(rows) > 1 or not _is_same_request(row, identity):
        raise ServiceError(Code.IDEMPOTENCY_KEY_REUSED, _why_refused(rows, identity))
    if key is not None and bound_key is None:
        try:
            IdempotencyKey.insert(
                client_id=identity.client_id, key=key, transaction_id=row.id, created_at=now
            ).execute()
        except IntegrityError:
            # Another call has bound the key since the look-up, to this transaction or to another one.
            return _find_earlier(identity, now)
    return row


def _is_same_request(row: Transaction, identity: RequestIdentity) -> bool:
    if row.request_digest != RECOVERED:
        return bool(row.request_digest == identity.digest)
    columns = [name for name in ("amount_cents", "phone_number", "refund_of") if name in identity.content]
    return row.type == identity.type and all(getattr(row, name) == identity.content[name] for name in columns)


def _why_refused(rows: Sequence[Transaction], identity: RequestIdentity) -> str:
    """The message of IDEMPOTENCY_KEY_REUSED: the transactions that have the keys; of a single one, what differs."""
    message = "The reference or idempotency key was used for a different request"
    if len(rows) > 1:
        return f"{message}: of the transactions {' and '.join(row.id for row in rows)}"
    (row,) = rows
    requested = {**identity.content, "reference": identity.reference}
    differing = [name.removesuffix("_cents") for name, value in requested.items() if getattr(row, name) != value]
    difference = f", with another {', '.join(sorted(differing))}" if differing else ""
    return f"{message}: of transaction {row.id}{difference}"


def _by_keys(of_type: Any) -> Query:
    """Select the transactions that have any key of a request, null matches none; `of_type` restricts the reference."""
    return Transaction.select().where(
        Transaction.client_id == param(Transaction.client_id),
        ((Transaction.reference == param(Transaction.reference)) & of_type)
        | (Transaction.id == param(Transaction.id, "bound_id"))
        | (
            (Transaction.session_id == param(Transaction.session_id))
            & (Transaction.confirmation == param(Transaction.confirmation))
        ),
    )


_BOUND_KEY = CompiledQuery(
    lambda: IdempotencyKey.select().where(
        IdempotencyKey.client_id == param(IdempotencyKey.client_id), IdempotencyKey.key == param(IdempotencyKey.key)
    )
)
_PAYMENT_BY_KEYS = CompiledQuery(lambda: _by_keys(Transaction.type != TransactionType.DEPOSIT))
_DEPOSIT_BY_KEYS = CompiledQuery(lambda: _by_keys(Transaction.type == TransactionType.DEPOSIT))
