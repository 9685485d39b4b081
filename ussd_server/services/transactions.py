"""Transactions: promises to clients, recorded once, read often. Moving them on is the settlement's work."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import fields, replace

from ussd_server.adapters.addresses import AddressGuard
from ussd_server.messages.transactions import (
    MAIN_ACCOUNT,
    CreateDeposit,
    CreateTransaction,
    GetTransaction,
    ListTransactions,
    Recorded,
    Source,
    TransactionPage,
    TransactionType,
    TransactionView,
)
from ussd_server.models.base import is_id
from ussd_server.models.clients import Client
from ussd_server.models.prepared import Prepared, blank, find_row
from ussd_server.models.transactions import Transaction
from ussd_server.rpc.context import CallContext
from ussd_server.rpc.status import Code, ServiceError
from ussd_server.rpc.tokens import Tokens
from ussd_server.services.ledger import DEPOSITS_ACCOUNT, Leg, legs_of
from ussd_server.services.pages import of_period, page_of
from ussd_server.services.providers import Providers
from ussd_server.services.recording import Names, Recorder, digest_of, hold_of
from ussd_server.services.story import failure_of, view_of
from ussd_server.services.waiting import WaitingPlaces
from ussd_server.services.webhooks import require_callable

_LOOK_AGAIN_SECONDS = 0.1
_OWN = Prepared(
    lambda: Transaction.select().where(
        Transaction.id == blank(Transaction.id), Transaction.client_id == blank(Transaction.client_id)
    )
)


class TransactionService:
    """Records what clients wish and shows what became of it. Calls no provider."""

    def __init__(
        self,
        providers: Providers,
        tokens: Tokens,
        guard: AddressGuard,
        recorder: Recorder,
        waiting_calls: int,
    ) -> None:
        """At most `waiting_calls` calls of this process wait at a time, shared fairly between clients."""
        self._waiting = WaitingPlaces(waiting_calls)
        self._providers = providers
        self._tokens = tokens
        self._guard = guard
        self._recorder = recorder

    def create(self, wish: CreateTransaction, call: CallContext) -> Recorded:
        """Record a collection, a disbursement or a transfer; the same wish again gives the same transaction.

        Refuses with IDEMPOTENCY_KEY_REUSED when a name was used for something else, INSUFFICIENT_BALANCE when the
        account here is too low, INVALID_AMOUNT for cents that the provider cannot move, INVALID_REQUEST for a
        `callback_url` that may not be called, TRANSACTION_FAILED when the provider is known to be away. A refusal
        records nothing. A new wish that waits is refused with TRANSACTION_FAILED (502) when the transaction fails while
        it waits; that one is recorded, and the sentence names it.
        """
        call.require("transactions:write")
        _refuse_contradictions(wish)
        digest = digest_of({name: getattr(wish, name) for name in _CONTENT})
        names = Names(call.client_id, wish.reference, wish.idempotency_key, wish.session_id, wish.confirmation)
        recorded = self._recorder.once(names, digest, lambda: self._record(wish, call, digest))
        if not wish.wait:
            return recorded
        row = self._watch(
            recorded.transaction.transaction_id,
            call.client_id,
            wish.wait,
            lambda row: row.completed_at is not None,
        )
        failure = failure_of(row)
        if failure is not None and not recorded.replayed:
            raise ServiceError(
                Code.TRANSACTION_FAILED, f"{failure.message} ({failure.code}). The transaction is {row.id}"
            )
        return Recorded(view_of(row), recorded.replayed)

    def deposit(self, wish: CreateDeposit, call: CallContext) -> Recorded:
        """Credit a client's main account with what it paid the operator; the same reference again changes nothing.

        The operator's references are its own: a client may use the same ones for what it orders.
        """
        call.require("accounts:credit")
        digest = digest_of({"deposit": wish.amount_cents, "reference": wish.reference})
        names = Names(wish.client_id, wish.reference, is_deposit=True)
        return self._recorder.once(names, digest, lambda: self._record_deposit(wish, call, digest))

    def get(self, wish: GetTransaction, call: CallContext) -> TransactionView:
        """One transaction with its story. TRANSACTION_NOT_FOUND also for somebody else's."""
        call.require("transactions:read")
        row = find_transaction(wish.transaction_id, call)
        if wish.wait and row.completed_at is None:
            seen = row.status
            row = self._watch(row.id, call.client_id, wish.wait, lambda row: row.status != seen)
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
        # Who looks for a reference wants to know whether it was recorded.
        may_lag = wish.reference is None
        found, next_cursor = page_of(rows, Transaction, wish.cursor, wish.limit, self._tokens, may_lag=may_lag)
        return TransactionPage(tuple(map(view_of, found)), next_cursor)

    def _watch(
        self, transaction_id: str, client_id: str, seconds: int, is_over: Callable[[Transaction], bool]
    ) -> Transaction:
        """The transaction as soon as `is_over` says so, or as it is after `seconds` or without a waiting place."""
        deadline = time.monotonic() + seconds
        with self._waiting.place(client_id) as place:
            while True:
                row = find_row(Transaction, transaction_id)
                if not place.is_held or is_over(row) or time.monotonic() >= deadline:
                    return row
                time.sleep(_LOOK_AGAIN_SECONDS)

    def _record(self, wish: CreateTransaction, call: CallContext, digest: str) -> Transaction:
        if wish.callback_url is not None:
            require_callable(self._guard, "callback_url", wish.callback_url)
        is_transfer = wish.type is TransactionType.TRANSFER
        provider = None
        if not is_transfer:
            provider = self._providers.choose(wish.provider, wish.phone_number, wish.amount_cents).name
        draft = self._recorder.draft(
            call.client_id, wish.type, wish.amount_cents, wish.reference, digest,
            phone_number=wish.phone_number, to_phone_number=wish.to_phone_number, provider=provider,
            account=wish.phone_number if is_transfer else wish.account, idempotency_key=wish.idempotency_key,
            session_id=wish.session_id, confirmation=wish.confirmation, description=wish.description,
            metadata=wish.metadata, callback_url=wish.callback_url,
            request_id=call.request_id,
        )  # fmt: skip
        legs: list[Leg] = []
        if wish.to_phone_number is not None:
            legs = legs_of(draft.row, "move", draft.row.account, wish.to_phone_number, fee_from=draft.row.account)
        elif wish.type is TransactionType.DISBURSEMENT:
            legs = hold_of(draft.row)
        return self._recorder.record(draft, legs)

    def _record_deposit(self, wish: CreateDeposit, call: CallContext, digest: str) -> Transaction:
        if not Client.select().where(Client.id == wish.client_id).exists():
            raise ServiceError(Code.NOT_FOUND, "Client not found")
        draft = self._recorder.draft(
            wish.client_id, TransactionType.DEPOSIT, wish.amount_cents, wish.reference, digest,
            account=MAIN_ACCOUNT, description=wish.description, request_id=call.request_id,
        )  # fmt: skip
        legs = legs_of(draft.row, "move", DEPOSITS_ACCOUNT, MAIN_ACCOUNT, fee_from=DEPOSITS_ACCOUNT)
        return self._recorder.record(draft, legs, Source.OPERATOR)


# The names are compared by themselves, and how long a wish waits changes nothing about it.
_CONTENT = tuple(
    field.name
    for field in fields(CreateTransaction)
    if field.name not in ("idempotency_key", "session_id", "confirmation", "wait")
)


def find_transaction(transaction_id: str, call: CallContext) -> Transaction:
    """One of the client's transactions. TRANSACTION_NOT_FOUND also for somebody else's."""
    row: Transaction | None = None
    if is_id(transaction_id):
        row = _OWN.first(Transaction, id=transaction_id, client_id=call.client_id)
    if row is None:
        raise ServiceError(Code.TRANSACTION_NOT_FOUND, "Transaction not found")
    return row


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
