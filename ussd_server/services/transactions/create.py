"""Creation of transactions: check, draft, legs, insert; after a refusal, the earlier transaction of the same names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields

from peewee import IntegrityError

from ussd_server.context import RequestContext
from ussd_server.database.columns import values_of
from ussd_server.database.unit_of_work import GroupCommit, database
from ussd_server.models.transactions import IdempotencyKey, Transaction
from ussd_server.providers.messages import Direction
from ussd_server.runtime import Runtime
from ussd_server.services.accounts.fees import FeeBook, fee_cents
from ussd_server.services.accounts.ledger import Leg, hold_legs, legs_of, postings_of
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.accounts.postings import AnotherFeeError, OverdraftError
from ussd_server.services.transactions.batch import Batch, merged, write_batch
from ussd_server.services.transactions.history import first_rows, view_of, views_of
from ussd_server.services.transactions.messages import (
    MAIN_ACCOUNT,
    CreatedTransaction,
    CreateTransaction,
    Source,
    TransactionStatus,
    TransactionType,
    TransactionView,
)
from ussd_server.services.transactions.names import (
    RequestIdentity,
    bound_key,
    digest_of,
    find_twins,
    refuse_operators_name,
    why_refused,
)
from ussd_server.services.webhooks.subscriptions import require_callable
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id

REFUSALS = (ServiceError, IntegrityError, OverdraftError)
"""What refuses a new transaction; `TransactionCreator.existing` handles them."""

# The names are compared one by one, and how long a request waits changes nothing about it.
_CONTENT = tuple(
    each.name
    for each in fields(CreateTransaction)
    if each.name not in ("idempotency_key", "session_id", "confirmation", "place", "wait")
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A transaction that is not inserted yet, and the terms of its fee."""

    row: Transaction
    terms: FeeTerms


class TransactionCreator:
    """Creates transactions, each once under its names: row, history, events and money together or not at all."""

    def __init__(self, runtime: Runtime) -> None:
        self.wake_worker = runtime.wake_up.send
        self.fees = FeeBook()
        self.references = runtime.references
        self._providers = runtime.providers
        self._guard = runtime.guard
        self._clock = runtime.clock
        self._group_commit = GroupCommit(_write_batches)

    def create(self, request: CreateTransaction, context: RequestContext) -> CreatedTransaction:
        """Create a collection, a disbursement or a transfer, or return the one that an equal request created before.

        A refusal inserts nothing. Raises IDEMPOTENCY_KEY_REUSED when a name was used for something else,
        INSUFFICIENT_BALANCE when the account here is too low, INVALID_AMOUNT for what the provider cannot move,
        INVALID_REQUEST for a `callback_url` that may not be called and for a reference of the operators,
        TRANSACTION_FAILED when the provider is away.
        """
        context.require("transactions:write")
        _refuse_contradictions(request)
        refuse_operators_name(request.reference)
        return self._create(request, context, place_number=1)

    def _create(self, request: CreateTransaction, context: RequestContext, place_number: int) -> CreatedTransaction:
        """`place_number` counts the payments that were created at `request.place`."""
        identity = RequestIdentity(
            context.client_id, digest_of({name: getattr(request, name) for name in _CONTENT}), request.reference,
            request.idempotency_key, request.session_id, request.confirmation,
            content={name: getattr(request, name) for name in _CONTENT if name != "provider" or request.provider},
        )  # fmt: skip
        provider, account = None, request.account
        try:
            if request.callback_url is not None:
                require_callable(self._guard, "callback_url", request.callback_url)
            if request.type is TransactionType.TRANSFER:
                account = request.phone_number
            else:
                provider = self._providers.choose(
                    request.provider, request.phone_number, request.amount_cents, Direction(request.type)
                ).name
            draft = self.draft(
                identity, request.type, request.amount_cents, phone_number=request.phone_number,
                to_phone_number=request.to_phone_number, provider=provider, account=account,
                description=request.description, metadata=request.metadata, callback_url=request.callback_url,
                request_id=context.request_id, place=request.place, place_number=place_number,
            )  # fmt: skip
            legs: list[Leg] = []
            if request.to_phone_number is not None:
                legs = legs_of(draft.row, "move", account, request.to_phone_number, fee_from=account)
            elif request.type is TransactionType.DISBURSEMENT:
                legs = hold_legs(draft.row)
            return CreatedTransaction(self.insert(draft, legs), replayed=False)
        except AnotherFeeError:
            self.fees.forget(context.client_id, request.type)
            return self._create(request, context, place_number)
        except IntegrityError as refusal:
            if request.place is not None and not find_twins(identity, bound_key(identity)):
                number = self.references.next_number(context.client_id, request.type, request.place)
                if number != place_number:
                    return self._create(request, context, number)
            return self.existing(identity, refusal)
        except REFUSALS as refusal:
            return self.existing(identity, refusal)

    def draft(
        self,
        identity: RequestIdentity,
        kind: TransactionType,
        amount_cents: int,
        place: Sequence[str] | None = None,
        place_number: int = 1,
        **more: object,
    ) -> Draft:
        """A new transaction with its fee; `more` are further columns."""
        now = self._clock.now()
        name = None
        if more.get("provider"):
            name = (
                self.references.of_reference(identity.client_id, kind, identity.reference)
                if place is None
                else self.references.of_place(identity.client_id, kind, place, place_number)
            )
        terms = self.fees.find(identity.client_id, kind)
        row = Transaction(__no_default__=True)
        row.__data__ |= dict(
            id=new_id(now), client_id=identity.client_id, type=kind, status=TransactionStatus.CREATED, currency="UGX",
            amount_cents=amount_cents, fee_cents=fee_cents(terms, amount_cents), reference=identity.reference,
            idempotency_key=identity.idempotency_key, session_id=identity.session_id,
            confirmation=identity.confirmation, request_digest=identity.digest, late=False, ask_attempts=0, checks=0,
            created_at=now, updated_at=now, due_at=now, due_source=Source.POLL,
            provider_reference=name, **more,
        )  # fmt: skip
        return Draft(row, terms)

    def insert(self, draft: Draft, legs: Collection[Leg], source: Source = Source.SUBMIT) -> TransactionView:
        """Insert and commit a draft with its money, in one batch with other callers' drafts.

        Raises OverdraftError, AnotherFeeError when its fee is not what is agreed now, and IntegrityError for a name
        that is taken.
        """
        batch, view = batch_of(draft, legs, source)
        # The caller that wrote the batch wakes the worker for all transactions in it.
        written = self._group_commit.do(batch)
        if any("provider" in row for batch in written for row in batch.transactions):
            self.wake_worker()
        return view

    def existing(self, identity: RequestIdentity, refusal: Exception) -> CreatedTransaction:
        """The transaction that was created before under one of the names; raises the refusal when there is none.

        Names are looked up only after a refusal: few requests are repeats, and the database refuses every repeat by
        its names. Binds a repeat's idempotency key to the transaction.
        Raises IDEMPOTENCY_KEY_REUSED when a name was used for something else.
        """
        key = identity.idempotency_key
        bound = bound_key(identity)
        found = find_twins(identity, bound)
        if not found:
            if isinstance(refusal, OverdraftError):
                raise ServiceError(
                    Code.INSUFFICIENT_BALANCE, "Insufficient balance to complete the transaction"
                ) from None
            if isinstance(refusal, IntegrityError):
                raise AssertionError("a constraint refused a transaction that has no twin") from refusal
            raise refusal
        if len(found) > 1 or found[0].request_digest != identity.digest:
            raise ServiceError(Code.IDEMPOTENCY_KEY_REUSED, why_refused(found, identity))
        (row,) = found
        if key is not None and bound is None and row.idempotency_key != key:
            try:
                IdempotencyKey.insert(
                    client_id=identity.client_id, key=key, transaction_id=row.id, created_at=self._clock.now()
                ).execute()
            except IntegrityError:
                # Another call has bound the key since the look-up, to this transaction or to another one.
                return self.existing(identity, refusal)
        return CreatedTransaction(views_of([row])[0], replayed=True)


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
        settled=settled,
        fees=[
            {"client_id": row.client_id, "type": row.type, "fixed_cents": terms.fixed_cents,
             "share_basis_points": terms.share_basis_points}
        ],
    )  # fmt: skip
    return batch, view


def _write_batches(batches: Sequence[Batch]) -> None:
    assert not database.in_transaction(), "a caller must not get a result whose commit is still to come"
    # In one order of names, so that two groups cannot wait for each other.
    batches = sorted(batches, key=_first_name)
    write_batch(batches[0] if len(batches) == 1 else merged(batches))


def _first_name(batch: Batch) -> tuple[str, str]:
    (row,) = batch.transactions
    return row["client_id"], row["reference"]


def _refuse_contradictions(request: CreateTransaction) -> None:
    """Raise INVALID_REQUEST for fields that belong to another type of transaction."""
    if request.type is not TransactionType.TRANSFER:
        if request.to_phone_number is not None:
            raise ServiceError(Code.INVALID_REQUEST, "to_phone_number: Belongs to a transfer only.")
        return
    if request.to_phone_number in (None, request.phone_number):
        raise ServiceError(Code.INVALID_REQUEST, "to_phone_number: A transfer needs another account than phone_number.")
    if request.provider is not None:
        raise ServiceError(Code.INVALID_REQUEST, "provider: A transfer moves within this service and has none.")
    if request.account not in (MAIN_ACCOUNT, request.phone_number):
        raise ServiceError(Code.INVALID_REQUEST, "account: A transfer debits the account of phone_number.")
