"""Transactions: promises to clients, recorded once, read often. Moving them on is the settlement's work."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, replace
from threading import BoundedSemaphore

from peewee import IntegrityError

from ussd_server.adapters.addresses import AddressGuard
from ussd_server.messages.transactions import (
    MAIN_ACCOUNT,
    UNFINISHED,
    CreateDeposit,
    CreateRefund,
    CreateTransaction,
    GetTransaction,
    ListTransactions,
    Recorded,
    Source,
    TransactionPage,
    TransactionStatus,
    TransactionType,
    TransactionView,
)
from ussd_server.models.base import for_update, is_id, new_id, unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.transactions import Transaction
from ussd_server.rpc.clock import Clock
from ussd_server.rpc.context import CallContext
from ussd_server.rpc.status import Code, ServiceError
from ussd_server.rpc.tokens import Tokens
from ussd_server.services.fees import fee_cents
from ussd_server.services.ledger import (
    DEPOSITS_ACCOUNT,
    PROVIDER_ACCOUNT,
    OverdraftError,
    legs_of,
    write_entry,
)
from ussd_server.services.pages import of_period, page_of
from ussd_server.services.providers import Providers
from ussd_server.services.story import failure_of, tell, view_of
from ussd_server.services.webhooks import require_callable

_LOOK_AGAIN_SECONDS = 0.1
_GIVEN_BACK = (*UNFINISHED, TransactionStatus.SUCCEEDED)


class TransactionService:
    """Records what clients wish and shows what became of it. Calls no provider."""

    def __init__(
        self,
        providers: Providers,
        tokens: Tokens,
        guard: AddressGuard,
        clock: Clock,
        wake_worker: Callable[[], None],
        waiting_calls: int,
    ) -> None:
        """`wake_worker` is called after a transaction that needs a provider is committed; it must not raise.

        At most `waiting_calls` calls of this process wait at a time; the others are answered at once.
        """
        self._waiting = BoundedSemaphore(waiting_calls)
        self._providers = providers
        self._tokens = tokens
        self._guard = guard
        self._clock = clock
        self._wake_worker = wake_worker

    def create(self, wish: CreateTransaction, call: CallContext) -> Recorded:
        """Record a collection, a disbursement or a transfer; the same wish again gives the same transaction.

        Refuses with IDEMPOTENCY_KEY_REUSED when a name was used for something else, INSUFFICIENT_BALANCE when the
        account here is too low, INVALID_AMOUNT for cents that the provider cannot move, INVALID_REQUEST for a
        `callback_url` that may not be called, TRANSACTION_FAILED when the provider is known to be away. A refusal
        records nothing. A new wish that waits is refused with TRANSACTION_FAILED (502) when the transaction fails while
        it waits; that one is recorded, and the sentence names it.
        """
        call.require("transactions:write")
        recorded = self._record(wish, call)
        if not wish.wait:
            return recorded
        row = self._watch(recorded.transaction.transaction_id, wish.wait, lambda row: row.completed_at is not None)
        failure = failure_of(row)
        if failure is not None and not recorded.replayed:
            raise ServiceError(
                Code.TRANSACTION_FAILED, f"{failure.message} ({failure.code}). The transaction is {row.id}"
            )
        return Recorded(view_of(row), recorded.replayed)

    def _record(self, wish: CreateTransaction, call: CallContext) -> Recorded:
        _refuse_contradictions(wish)
        digest = _digest({name: value for name, value in asdict(wish).items() if name not in _NAMES})
        names = (wish.reference, wish.idempotency_key, wish.session_id, wish.confirmation)
        if replay := self._replay(call.client_id, names, digest):
            return replay
        if wish.callback_url is not None:
            require_callable(self._guard, "callback_url", wish.callback_url)
        provider = None
        if wish.type is not TransactionType.TRANSFER:
            provider = self._providers.choose(wish.provider, wish.phone_number, wish.amount_cents).name
        row = self._new_row(
            call.client_id, wish.type, wish.amount_cents, wish.reference, digest,
            phone_number=wish.phone_number, to_phone_number=wish.to_phone_number, provider=provider,
            account=wish.phone_number if wish.type is TransactionType.TRANSFER else wish.account,
            fee_cents=fee_cents(call.client_id, wish.type, wish.amount_cents),
            idempotency_key=wish.idempotency_key, session_id=wish.session_id, confirmation=wish.confirmation,
            description=wish.description, metadata=wish.metadata, callback_url=wish.callback_url,
            request_id=call.request_id,
        )  # fmt: skip
        try:
            with unit_of_work():
                row.save(force_insert=True)
                tell(row, Source.SUBMIT, row.created_at)
                if wish.type is TransactionType.TRANSFER:
                    assert wish.to_phone_number is not None
                    self._move_at_once(row, row.account, wish.to_phone_number, Source.SUBMIT)
                elif wish.type is TransactionType.DISBURSEMENT:
                    self._reserve(row)
        except IntegrityError:
            return self._winner_of_race(call.client_id, names, digest)
        except OverdraftError:
            raise ServiceError(Code.INSUFFICIENT_BALANCE, "Insufficient balance to complete the transaction") from None
        self._wake_worker()
        return Recorded(view_of(row), replayed=False)

    def refund(self, wish: CreateRefund, call: CallContext) -> Recorded:
        """Record that a succeeded collection is given back to its payer, wholly or in part.

        INVALID_REQUEST unless the collection succeeded, INVALID_AMOUNT for more than is left; otherwise as `create`.
        """
        call.require("transactions:write")
        original = self._find(wish.transaction_id, call)
        digest = _digest({"refund_of": original.id, "amount_cents": wish.amount_cents, "reference": wish.reference})
        names = (wish.reference, wish.idempotency_key, None, None)
        if replay := self._replay(call.client_id, names, digest):
            return replay
        if original.type != TransactionType.COLLECTION or original.status != TransactionStatus.SUCCEEDED:
            raise ServiceError(Code.INVALID_REQUEST, "Only a succeeded collection can be given back")
        assert original.phone_number is not None
        left_cents = original.amount_cents - _given_back_cents(original)
        amount_cents = left_cents if wish.amount_cents is None else wish.amount_cents
        if not 0 < amount_cents <= left_cents:
            raise ServiceError(Code.INVALID_AMOUNT, "amount: More than is left of the collection.")
        provider = self._providers.choose(original.provider, original.phone_number, amount_cents)
        if provider.refunds_in_full_only and amount_cents != original.amount_cents:
            raise ServiceError(Code.INVALID_AMOUNT, f"amount: {provider.name} gives back whole payments only.")
        row = self._new_row(
            call.client_id, TransactionType.REFUND, amount_cents, wish.reference, digest,
            phone_number=original.phone_number, provider=provider.name, account=original.account,
            fee_cents=fee_cents(call.client_id, TransactionType.REFUND, amount_cents),
            idempotency_key=wish.idempotency_key, refund_of=original.id, request_id=call.request_id,
        )  # fmt: skip
        try:
            with unit_of_work():
                # Two refunds at once must not give back more than there was: the second one looks again.
                for_update(Transaction.select(Transaction.id).where(Transaction.id == original.id)).get()
                if amount_cents > original.amount_cents - _given_back_cents(original):
                    raise ServiceError(Code.INVALID_AMOUNT, "amount: More than is left of the collection.")
                row.save(force_insert=True)
                tell(row, Source.SUBMIT, row.created_at)
                self._reserve(row)
        except IntegrityError:
            return self._winner_of_race(call.client_id, names, digest)
        except OverdraftError:
            raise ServiceError(Code.INSUFFICIENT_BALANCE, "Insufficient balance to complete the transaction") from None
        self._wake_worker()
        return Recorded(view_of(row), replayed=False)

    def deposit(self, wish: CreateDeposit, call: CallContext) -> Recorded:
        """Credit a client's main account with what it paid the operator; the same reference again changes nothing."""
        call.require("accounts:credit")
        digest = _digest({"deposit": wish.amount_cents, "reference": wish.reference})
        names = (wish.reference, None, None, None)
        if replay := self._replay(wish.client_id, names, digest):
            return replay
        if not Client.select().where(Client.id == wish.client_id).exists():
            raise ServiceError(Code.NOT_FOUND, "Client not found")
        row = self._new_row(
            wish.client_id, TransactionType.DEPOSIT, wish.amount_cents, wish.reference, digest,
            account=MAIN_ACCOUNT, description=wish.description, request_id=call.request_id,
        )  # fmt: skip
        try:
            with unit_of_work():
                row.save(force_insert=True)
                tell(row, Source.OPERATOR, row.created_at)
                self._move_at_once(row, DEPOSITS_ACCOUNT, MAIN_ACCOUNT, Source.OPERATOR)
        except IntegrityError:
            return self._winner_of_race(wish.client_id, names, digest)
        return Recorded(view_of(row), replayed=False)

    def get(self, wish: GetTransaction, call: CallContext) -> TransactionView:
        """One transaction with its story. TRANSACTION_NOT_FOUND also for somebody else's."""
        call.require("transactions:read")
        row = self._find(wish.transaction_id, call)
        if wish.wait and row.completed_at is None:
            seen = row.status
            row = self._watch(row.id, wish.wait, lambda row: row.status != seen)
        return view_of(row, with_story=True)

    def list(self, wish: ListTransactions, call: CallContext) -> TransactionPage:
        """A page of the client's transactions, newest first."""
        call.require("transactions:read")
        return self._page(wish, call)

    def list_collected(self, wish: ListTransactions, call: CallContext) -> TransactionPage:
        """A page of the client's collections, as the data collection endpoint shows them."""
        call.require("collection:read")
        if wish.type not in (None, TransactionType.COLLECTION):
            return TransactionPage((), None)
        return self._page(replace(wish, type=TransactionType.COLLECTION), call)

    def _page(self, wish: ListTransactions, call: CallContext) -> TransactionPage:
        rows = Transaction.select().where(Transaction.client_id == call.client_id)
        for column, value in (
            (Transaction.status, wish.status),
            (Transaction.type, wish.type),
            (Transaction.phone_number, wish.phone_number),
            (Transaction.reference, wish.reference),
        ):
            if value is not None:
                rows = rows.where(column == value)
        rows = of_period(rows, Transaction, wish.from_at, wish.to_at)
        found, next_cursor = page_of(rows, Transaction, wish.cursor, wish.limit, self._tokens)
        return TransactionPage(tuple(map(view_of, found)), next_cursor)

    def _watch(self, transaction_id: str, seconds: int, is_over: Callable[[Transaction], bool]) -> Transaction:
        """The transaction as soon as `is_over` says so, or as it is after `seconds`; at once when too many watch."""
        deadline = time.monotonic() + seconds
        has_place = self._waiting.acquire(blocking=False)
        try:
            while True:
                row: Transaction = Transaction.get_by_id(transaction_id)
                if not has_place or is_over(row) or time.monotonic() >= deadline:
                    return row
                time.sleep(_LOOK_AGAIN_SECONDS)
        finally:
            if has_place:
                self._waiting.release()

    def _find(self, transaction_id: str, call: CallContext) -> Transaction:
        row = is_id(transaction_id) and Transaction.get_or_none(
            Transaction.id == transaction_id, Transaction.client_id == call.client_id
        )
        if not row:
            raise ServiceError(Code.TRANSACTION_NOT_FOUND, "Transaction not found")
        return row

    def _new_row(
        self, client_id: str, kind: TransactionType, amount_cents: int, reference: str, digest: str, **more: object
    ) -> Transaction:
        now = self._clock.now()
        # The name by which the company will know it is chosen now, so that it is stored before anything is sent.
        provider_reference = str(uuid.uuid4()) if more.get("provider") else None
        return Transaction(
            id=new_id(now), client_id=client_id, type=kind, status=TransactionStatus.CREATED, currency="UGX",
            amount_cents=amount_cents, reference=reference, request_digest=digest,
            provider_reference=provider_reference, late=False, ask_attempts=0, checks=0,
            created_at=now, updated_at=now, due_at=now, due_source=Source.POLL, **({"fee_cents": 0} | more),
        )  # fmt: skip

    def _reserve(self, row: Transaction) -> None:
        """Hold the amount and its fee on the account that pays."""
        now, company = row.created_at, PROVIDER_ACCOUNT.format(row.provider)
        legs = legs_of(row, "hold", row.account, company, fee_from=row.account, now=now)
        write_entry(row.client_id, row.id, legs, now)

    def _move_at_once(self, row: Transaction, debited: str, credited: str, source: Source) -> None:
        """Move money that needs no company, and call the transaction succeeded."""
        now = row.created_at
        legs = legs_of(row, "move", debited, credited, fee_from=debited, now=now)
        write_entry(row.client_id, row.id, legs, now)
        row.status, row.completed_at, row.due_at = TransactionStatus.SUCCEEDED, now, None
        row.save(only=[Transaction.status, Transaction.completed_at, Transaction.due_at])
        tell(row, source, now)

    def _replay(self, client_id: str, names: _Names, digest: str) -> Recorded | None:
        """What was recorded under any of the names before. IDEMPOTENCY_KEY_REUSED when it was something else."""
        reference, idempotency_key, session_id, confirmation = names
        named = Transaction.reference == reference
        if idempotency_key is not None:
            named |= Transaction.idempotency_key == idempotency_key
        if confirmation is not None:
            named |= (Transaction.session_id == session_id) & (Transaction.confirmation == confirmation)
        found = list(Transaction.select().where(Transaction.client_id == client_id, named))
        if not found:
            return None
        if len(found) > 1 or found[0].request_digest != digest:
            raise ServiceError(
                Code.IDEMPOTENCY_KEY_REUSED, "The reference or idempotency key was used for a different request"
            )
        return Recorded(view_of(found[0]), replayed=True)

    def _winner_of_race(self, client_id: str, names: _Names, digest: str) -> Recorded:
        """What somebody else recorded under the same name at the same time."""
        winner = self._replay(client_id, names, digest)
        if winner is None:
            raise AssertionError("a constraint refused a transaction that has no twin")
        return winner


_Names = tuple[str, str | None, str | None, str | None]
_NAMES = ("idempotency_key", "session_id", "confirmation", "wait")


def _refuse_contradictions(wish: CreateTransaction) -> None:
    """INVALID_REQUEST for fields that belong to another type than the wish's."""
    if wish.type is not TransactionType.TRANSFER:
        if wish.to_phone_number is not None:
            raise ServiceError(Code.INVALID_REQUEST, "to_phone_number: Belongs to a transfer only.")
        return
    if wish.to_phone_number in (None, wish.phone_number):
        raise ServiceError(Code.INVALID_REQUEST, "to_phone_number: A transfer needs another account than phone_number.")
    if wish.provider is not None:
        raise ServiceError(Code.INVALID_REQUEST, "provider: A transfer moves within this service and has none.")
    if wish.account not in (MAIN_ACCOUNT, wish.phone_number):
        raise ServiceError(Code.INVALID_REQUEST, "account: A transfer debits the account of phone_number.")


def _given_back_cents(original: Transaction) -> int:
    """What refunds of a collection have given back or are about to."""
    refunds = Transaction.select(Transaction.amount_cents).where(
        Transaction.refund_of == original.id, Transaction.status.in_(_GIVEN_BACK)
    )
    return sum(refund.amount_cents for refund in refunds)


def _digest(content: dict[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()
