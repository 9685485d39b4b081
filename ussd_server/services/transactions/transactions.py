"""Transactions: promises to clients, recorded once, read often. Moving them on is the settlement's work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace

from ussd_server.context import RequestContext
from ussd_server.database.compiled_queries import CompiledQuery, find_row, param
from ussd_server.database.ids import is_id
from ussd_server.messages.transactions import (
    MAIN_ACCOUNT,
    CreateDeposit,
    CreatedTransaction,
    CreateTransaction,
    GetTransaction,
    ListTransactions,
    Source,
    TransactionPage,
    TransactionType,
    TransactionView,
)
from ussd_server.models.clients import Client
from ussd_server.models.transactions import Transaction
from ussd_server.outbound.addresses import AddressGuard
from ussd_server.polling import attempts
from ussd_server.security.tokens import Tokens
from ussd_server.services.pages import of_period, page_of
from ussd_server.services.transactions.history import failure_of, view_of
from ussd_server.services.transactions.insert import TransactionNames, TransactionWriter, digest_of, hold_of
from ussd_server.services.transactions.ledger import DEPOSITS_ACCOUNT, Leg, legs_of
from ussd_server.services.transactions.providers import Providers
from ussd_server.services.transactions.waiting_places import WaitingPlaces
from ussd_server.services.webhooks.subscriptions import require_callable
from ussd_server.status import Code, ServiceError

_LOOK_AGAIN_SECONDS = 0.1
_OWN = CompiledQuery(
    lambda: Transaction.select().where(
        Transaction.id == param(Transaction.id), Transaction.client_id == param(Transaction.client_id)
    )
)


class TransactionService:
    """Records what clients wish and shows what became of it. Calls no provider."""

    def __init__(
        self,
        providers: Providers,
        tokens: Tokens,
        guard: AddressGuard,
        writer: TransactionWriter,
        waiting_calls: int,
    ) -> None:
        """At most `waiting_calls` calls of this process wait at a time, shared fairly between clients."""
        self._waiting = WaitingPlaces(waiting_calls)
        self._providers = providers
        self._tokens = tokens
        self._guard = guard
        self._recorder = writer

    def create(self, request: CreateTransaction, context: RequestContext) -> CreatedTransaction:
        """Record a collection, a disbursement or a transfer; the same wish again gives the same transaction.

        Refuses with IDEMPOTENCY_KEY_REUSED when a name was used for something else, INSUFFICIENT_BALANCE when the
        account here is too low, INVALID_AMOUNT for cents that the provider cannot move, INVALID_REQUEST for a
        `callback_url` that may not be called, TRANSACTION_FAILED when the provider is known to be away. A refusal
        records nothing. A new wish that waits is refused with TRANSACTION_FAILED (502) when the transaction fails while
        it waits; that one is recorded, and the sentence names it.
        """
        context.require("transactions:write")
        _refuse_contradictions(request)
        digest = digest_of({name: getattr(request, name) for name in _CONTENT})
        names = TransactionNames(
            context.client_id, request.reference, request.idempotency_key, request.session_id, request.confirmation
        )
        recorded = self._recorder.once(names, digest, lambda: self._record(request, context, digest))
        if not request.wait:
            return recorded
        row = self._watch(
            recorded.transaction.transaction_id,
            context.client_id,
            request.wait,
            lambda row: row.completed_at is not None,
        )
        failure = failure_of(row)
        if failure is not None and not recorded.replayed:
            raise ServiceError(
                Code.TRANSACTION_FAILED, f"{failure.message} ({failure.code}). The transaction is {row.id}"
            )
        return CreatedTransaction(view_of(row), recorded.replayed)

    def deposit(self, request: CreateDeposit, context: RequestContext) -> CreatedTransaction:
        """Credit a client's main account with what it paid the operator; the same reference again changes nothing.

        The operator's references are its own: a client may use the same ones for what it orders.
        """
        context.require("accounts:credit")
        digest = digest_of({"deposit": request.amount_cents, "reference": request.reference})
        names = TransactionNames(request.client_id, request.reference, is_deposit=True)
        return self._recorder.once(names, digest, lambda: self._record_deposit(request, context, digest))

    def get(self, request: GetTransaction, context: RequestContext) -> TransactionView:
        """One transaction with its story. TRANSACTION_NOT_FOUND also for somebody else's."""
        context.require("transactions:read")
        row = find_transaction(request.transaction_id, context)
        if request.wait and row.completed_at is None:
            seen = row.status
            row = self._watch(row.id, context.client_id, request.wait, lambda row: row.status != seen)
        return view_of(row, with_history=True)

    def list(self, request: ListTransactions, context: RequestContext) -> TransactionPage:
        """A page of the client's transactions, newest first."""
        context.require("transactions:read")
        return self._page(request, context)

    def list_collected(self, request: ListTransactions, context: RequestContext) -> TransactionPage:
        """A page of the client's collections, as the data collection endpoint shows them."""
        context.require("collection:read")
        if request.type not in (None, TransactionType.COLLECTION):
            return TransactionPage((), None)
        return self._page(replace(request, type=TransactionType.COLLECTION), context)

    def _page(self, request: ListTransactions, context: RequestContext) -> TransactionPage:
        rows = Transaction.select().where(Transaction.client_id == context.client_id)
        for column, value in (
            (Transaction.status, request.status),
            (Transaction.type, request.type),
            (Transaction.phone_number, request.phone_number),
            (Transaction.reference, request.reference),
        ):
            if value is not None:
                rows = rows.where(column == value)
        rows = of_period(rows, Transaction, request.from_at, request.to_at)
        # Who looks for a reference wants to know whether it was recorded.
        may_lag = request.reference is None
        found, next_cursor = page_of(rows, Transaction, request.cursor, request.limit, self._tokens, may_lag=may_lag)
        return TransactionPage(tuple(map(view_of, found)), next_cursor)

    def _watch(
        self, transaction_id: str, client_id: str, seconds: int, is_over: Callable[[Transaction], bool]
    ) -> Transaction:
        """The transaction as soon as `is_over` says so, or as it is after `seconds` or without a waiting place."""
        with self._waiting.place(client_id) as place:
            for _ in attempts(seconds, _LOOK_AGAIN_SECONDS, _LOOK_AGAIN_SECONDS):
                row = find_row(Transaction, transaction_id)
                if not place.is_held or is_over(row):
                    break
        return row

    def _record(self, request: CreateTransaction, context: RequestContext, digest: str) -> Transaction:
        if request.callback_url is not None:
            require_callable(self._guard, "callback_url", request.callback_url)
        is_transfer = request.type is TransactionType.TRANSFER
        provider = None
        if not is_transfer:
            provider = self._providers.choose(request.provider, request.phone_number, request.amount_cents).name
        draft = self._recorder.draft(
            context.client_id, request.type, request.amount_cents, request.reference, digest,
            phone_number=request.phone_number, to_phone_number=request.to_phone_number, provider=provider,
            account=request.phone_number if is_transfer else request.account, idempotency_key=request.idempotency_key,
            session_id=request.session_id, confirmation=request.confirmation, description=request.description,
            metadata=request.metadata, callback_url=request.callback_url,
            request_id=context.request_id,
        )  # fmt: skip
        legs: list[Leg] = []
        if request.to_phone_number is not None:
            legs = legs_of(draft.row, "move", draft.row.account, request.to_phone_number, fee_from=draft.row.account)
        elif request.type is TransactionType.DISBURSEMENT:
            legs = hold_of(draft.row)
        return self._recorder.record(draft, legs)

    def _record_deposit(self, request: CreateDeposit, context: RequestContext, digest: str) -> Transaction:
        if not Client.select().where(Client.id == request.client_id).exists():
            raise ServiceError(Code.NOT_FOUND, "Client not found")
        draft = self._recorder.draft(
            request.client_id, TransactionType.DEPOSIT, request.amount_cents, request.reference, digest,
            account=MAIN_ACCOUNT, description=request.description, request_id=context.request_id,
        )  # fmt: skip
        legs = legs_of(draft.row, "move", DEPOSITS_ACCOUNT, MAIN_ACCOUNT, fee_from=DEPOSITS_ACCOUNT)
        return self._recorder.record(draft, legs, Source.OPERATOR)


# The names are compared by themselves, and how long a wish waits changes nothing about it.
_CONTENT = tuple(
    field.name
    for field in fields(CreateTransaction)
    if field.name not in ("idempotency_key", "session_id", "confirmation", "wait")
)


def find_transaction(transaction_id: str, context: RequestContext) -> Transaction:
    """One of the client's transactions. TRANSACTION_NOT_FOUND also for somebody else's."""
    row: Transaction | None = None
    if is_id(transaction_id):
        row = _OWN.first(Transaction, id=transaction_id, client_id=context.client_id)
    if row is None:
        raise ServiceError(Code.TRANSACTION_NOT_FOUND, "Transaction not found")
    return row


def _refuse_contradictions(request: CreateTransaction) -> None:
    """INVALID_REQUEST for fields that belong to another type than the wish's."""
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
