"""Transactions as clients see them: creating, reading, waiting for a change. `services/processing` advances them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any, cast

from ussd_server.clock import attempts
from ussd_server.context import CallerKind, RequestContext
from ussd_server.database.tables import CompiledQuery, find_row, param
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.clients import Client
from ussd_server.models.movements import users_of_receipts
from ussd_server.models.payouts import Payout
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Direction
from ussd_server.services.accounts.ledger import PROVIDER_ACCOUNT
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.gates.messages import WayOut
from ussd_server.services.pages import matching, page_of
from ussd_server.services.runtime import Runtime
from ussd_server.services.sms.receipts import ReceiptWriter
from ussd_server.services.transactions.audited import audited
from ussd_server.services.transactions.create import DraftColumns, Plan, RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.doubles import doubles_of, equal_payment
from ussd_server.services.transactions.history import view_with_history, views_of
from ussd_server.services.transactions.makers import via
from ussd_server.services.transactions.messages import (
    DESCRIPTION,
    MAIN_ACCOUNT,
    REFERENCE,
    CreatedTransaction,
    CreateTransaction,
    EqualPayment,
    GetTransaction,
    ListTransactions,
    MadeBy,
    MakerKind,
    NotCopied,
    PayingMenu,
    TransactionHistory,
    TransactionStatus,
    TransactionType,
    TransactionView,
    Undigested,
)
from ussd_server.services.webhooks.subscriptions import require_callable
from ussd_server.status import Code, ServiceError
from ussd_server.threads import Turns
from ussd_server.values import comparable_receipt, is_id
from ussd_server.wire import Page, fields_without

OPERATOR_REFUND = "operator-refund-"
"""Reserved prefix of references: refunds made by operators."""

SETTLEMENT = "bank/"
"""Begins the references of settlements to the bank; what follows is an id."""

RETURNED_SETTLEMENT = f"{SETTLEMENT}returned/"
"""Begins the references of deposits that return settlements; what follows is the id of the settlement."""

INCOMING = "in/"
"""Begins the references of payments that payers made by themselves; what follows is the provider's receipt."""

CORRECTION = "mv/"
"""Begins the references of corrections; what follows is the receipt of their movement."""

FILL = "fill/"
"""Begins the references of corrections that fill a shortfall; what follows is an id."""

_OPERATORS = (OPERATOR_REFUND, SETTLEMENT, INCOMING, CORRECTION, FILL)
_LOOK_AGAIN_SECONDS = 0.1
_WAITING_PHONES = 100
_PHONES_LOOK_AGAIN_SECONDS = 0.5
_CONTENT = fields_without(CreateTransaction, Undigested)
_COPIED = fields_without(CreateTransaction, Undigested, NotCopied)
_FILTERS = (
    Transaction.status,
    Transaction.type,
    Transaction.phone_number,
    Transaction.payout_id,
)
_OWN = CompiledQuery(
    lambda: Transaction.select().where(
        Transaction.id == param(Transaction.id), Transaction.client_id == param(Transaction.client_id)
    )
)


class TransactionService:
    """Creates and shows transactions. Calls no provider."""

    def __init__(self, runtime: Runtime, creator: TransactionCreator) -> None:
        self._tokens, self._replica, self._clock = runtime.tokens, runtime.replica, runtime.clock
        self._providers, self._guard = runtime.providers, runtime.guard
        # Half of the process's threads may wait for outcomes, shared fairly between clients.
        self._waiting = Bulkhead(runtime.settings.threads // 2)
        self._waiting_phones = Bulkhead(_WAITING_PHONES)
        self._creator, self._receipts = creator, ReceiptWriter(runtime)

    def create(self, request: CreateTransaction, context: RequestContext) -> CreatedTransaction:
        """Create a collection, a disbursement or a transfer, or return the one that an equal request created before.

        Waits for its outcome where the request says so. A refusal inserts nothing.
        Raises IDEMPOTENCY_KEY_REUSED when a key of it belongs to another request, INSUFFICIENT_BALANCE when the account
        here is too low, DAILY_LIMIT_REACHED when the key may not pay that much more today, INVALID_AMOUNT for what the
        provider cannot move, INVALID_REQUEST for a `callback_url` that may not be called and for a reference of the
        operators, TRANSACTION_FAILED when the provider is away, INSUFFICIENT_SCOPE for what the gate refuses.
        """
        # Endpoints pass plain text.
        request = replace(request, type=TransactionType(request.type))
        sending = None
        if request.type is TransactionType.COLLECTION:
            context.require("transactions:write")
        else:
            way = WayOut.PAYMENT if request.menu is None else WayOut.MENU
            sending = self._creator.gate.admit(way, context, request.menu)
        _refuse_contradictions(request)
        refuse_operators_reference(request.reference)
        content = {name: getattr(request, name) for name in _CONTENT}
        digest = digest_of(content)
        if not request.provider:
            # The service chooses it: a refusal does not name it as a difference.
            del content["provider"]
        identity = RequestIdentity(
            context.client_id,
            request.type,
            digest,
            request.reference,
            request.idempotency_key,
            request.session_id,
            request.confirmation,
            request.menu_step,
            content=content,
        )
        moves_at_once = request.type is TransactionType.TRANSFER
        has_receipt = moves_at_once and self._receipts.are_written(context.client_id, request.type)
        within = self._receipts.after if has_receipt else None
        if context.caller.kind is CallerKind.TOKEN and request.menu is None:
            within = partial(audited, action="transaction.asked", context=context, reason=request.description)
        plan = self._plan(request, context)
        created = self._creator.create(identity, plan, within=within, sending=sending)
        return self.wait_until_final(created, request.wait, context)

    def wait_until_final(
        self, created: CreatedTransaction, seconds: int, context: RequestContext
    ) -> CreatedTransaction:
        """The transaction once it is final; its current state after `seconds` (0 to 25), or if too many wait."""
        if not seconds:
            return created
        row = self._watch(
            created.transaction.transaction_id, context.client_id, seconds, lambda row: row.completed_at is not None
        )
        return CreatedTransaction(views_of([row])[0], created.replayed)

    def get(self, request: GetTransaction, context: RequestContext) -> TransactionHistory:
        """One transaction with its status history. Raises TRANSACTION_NOT_FOUND, also for another client's."""
        context.require("transactions:read")
        row = find_transaction(request.transaction_id, context)
        if request.wait and row.completed_at is None:
            status = row.status
            row = self._watch(row.id, context.client_id, request.wait, lambda row: row.status != status)
        return view_with_history(row)

    def list(self, request: ListTransactions, context: RequestContext) -> Page[TransactionView]:
        """A page of the client's transactions, newest first."""
        context.require("transactions:read")
        return self._page(request, context)

    def list_collected(self, request: ListTransactions, context: RequestContext) -> Page[TransactionView]:
        """A page of the client's collections, as the data collection endpoint shows them."""
        context.require("collection:read")
        if request.type not in (None, TransactionType.COLLECTION):
            return Page((), None)
        return self._page(replace(request, type=TransactionType.COLLECTION), context)

    def doubles(self, transaction_ids: Collection[str], context: RequestContext) -> Mapping[str, str]:
        """Which of the client's payments may have been made twice, each with the id of the other payment."""
        context.require("transactions:read")
        own = Transaction.select().where(Transaction.client_id == context.client_id)
        return doubles_of(list(own.where(Transaction.id.in_([*transaction_ids]))))

    def equal_to(self, request: EqualPayment, context: RequestContext) -> TransactionView | None:
        """The client's payment of the last ten minutes that an equal request would double; None without one."""
        context.require("transactions:read")
        number, amount_cents = request.phone_number, request.amount_cents
        row = equal_payment(context.client_id, request.type, number, amount_cents, self._clock.now())
        return views_of([row])[0] if row else None

    def _plan(self, request: CreateTransaction, context: RequestContext) -> Plan | ServiceError:
        """What a request pays, or why it is refused: a disbursement reserves its money, a transfer moves it."""
        columns = cast("DraftColumns", {name: getattr(request, name) for name in _COPIED})
        columns |= DraftColumns(
            request_id=context.request_id,
            key_id=context.caller.key_id,
            user_id=context.caller.user_id,
            menu_id=None if request.menu is None else request.menu.menu_id,
            menu_version=None if request.menu is None else request.menu.version,
        )
        holds = moves = None
        try:
            if request.callback_url is not None:
                require_callable(self._guard, "callback_url", request.callback_url)
            if request.to_phone_number is not None:
                columns["account"] = request.phone_number
                moves = (request.phone_number, request.to_phone_number)
            else:
                provider = self._providers.choose(
                    request.provider,
                    request.phone_number,
                    request.amount_cents,
                    Direction(request.type),
                    client_id=context.client_id,
                )
                columns["provider"], columns["provider_account"] = provider.name, provider.account
                if request.type is TransactionType.DISBURSEMENT:
                    holds = (request.account, PROVIDER_ACCOUNT.format(provider.account))
        except ServiceError as refusal:
            return refusal
        maker = known_maker(request.menu, context)
        return Plan(request.amount_cents, columns, holds=holds, moves=moves, made_by=maker)

    def _page(self, request: ListTransactions, context: RequestContext) -> Page[TransactionView]:
        if not all(is_id(each) for each in (request.payout_id, request.key_id) if each is not None):
            return Page((), None)
        rows = Transaction.select().where(Transaction.client_id == context.client_id)
        rows = matching(rows, request, *_FILTERS)
        if request.amount_cents is not None:
            # Beside a number not by the index of amounts: SQLite, without statistics, would read all of an amount.
            amount = Transaction.amount_cents if request.phone_number is None else Transaction.amount_cents + 0
            rows = rows.where(amount == request.amount_cents)
        if request.key_id is not None:
            rows = rows.where(_is_made_by_key(request.key_id, context.client_id))
        if (receipt := request.provider_transaction_id) is not None:
            users = [str(transaction_id) for transaction_id, _ in users_of_receipt(receipt).tuples()]
            with_receipt = (Transaction.provider_transaction_id == receipt) | (Transaction.provider_receipt == receipt)
            if users:
                # An empty list reads every row.
                with_receipt |= Transaction.id.in_(users)
            of_receipt = Transaction.select(Transaction.id).where(with_receipt)
            rows = rows.where(Transaction.id.in_(of_receipt))
        if request.reference is not None:
            with_reference = Transaction.select(Transaction.id).where(
                Transaction.client_id == context.client_id, Transaction.reference == request.reference
            )
            # By the ids, because SQLite would read all of the client's rows in order to find one or two.
            rows = rows.where(Transaction.id.in_(with_reference))
        # A client that asks for a reference wants to know whether its request arrived.
        replica = self._replica if request.reference is None else None
        return page_of(rows, Transaction, request, self._tokens, views_of, replica)

    def outcome(self, transaction_id: str, client_id: str, seconds: float) -> TransactionStatus:
        """The status of a menu's payment once it is final; its present one after `seconds`, or if too many wait.

        Holds no connection to the database while it waits, and lends the turn of its thread.
        """
        looks = Turns.pauses(attempts(seconds, _LOOK_AGAIN_SECONDS, _PHONES_LOOK_AGAIN_SECONDS))
        with self._waiting_phones.permit(client_id) as permit:
            for _ in looks:
                row = find_row(Transaction, transaction_id)
                if not permit.is_held or row.completed_at is not None:
                    break
        return TransactionStatus(row.status)

    def _watch(
        self, transaction_id: str, client_id: str, seconds: int, is_over: Callable[[Transaction], bool]
    ) -> Transaction:
        """The transaction once `is_over`; its current state after `seconds`, or at once if too many requests wait."""
        with self._waiting.permit(client_id) as permit:
            for _ in attempts(seconds, _LOOK_AGAIN_SECONDS, _LOOK_AGAIN_SECONDS):
                row = find_row(Transaction, transaction_id)
                if not permit.is_held or is_over(row):
                    break
        return row


def users_of_receipt(written: str) -> Any:
    """A query for the transactions that have the money of a receipt, of any provider, however it is written."""
    return users_of_receipts([comparable_receipt(written)])


def find_transaction(transaction_id: str, context: RequestContext) -> Transaction:
    """One of the client's transactions. Raises TRANSACTION_NOT_FOUND, also for another client's."""
    row: Transaction | None = None
    if is_id(transaction_id):
        row = _OWN.first(Transaction, id=transaction_id, client_id=context.client_id)
    if row is None:
        raise ServiceError(Code.TRANSACTION_NOT_FOUND, "Transaction not found")
    return row


def refuse_operators_reference(reference: str) -> None:
    """Raise INVALID_REQUEST for a client's reference that a transaction of the operators could get later."""
    for prefix in _OPERATORS:
        if reference.startswith(prefix):
            raise ServiceError(Code.INVALID_REQUEST, f"reference: Names that begin with {prefix} are the operators'.")


def require_reference(reference: str) -> None:
    """Raise INVALID_REQUEST unless a reference has 1 to 64 characters that can be printed."""
    if not 0 < len(reference.strip()) <= len(reference) <= REFERENCE.longest or not reference.isprintable():
        raise ServiceError(Code.INVALID_REQUEST, "A reference is needed, of at most 64 characters that can be printed")


def free_reference(client_id: str, wanted: str) -> str:
    """A reference, or with `/2`, `/3` and so on where the client has it already."""
    own = Transaction.select().where(Transaction.client_id == client_id)
    references = (wanted if number == 1 else f"{wanted}/{number}" for number in count(1))
    return next(each for each in references if not own.where(Transaction.reference == each).exists())


def require_description(description: str) -> None:
    """Raise INVALID_REQUEST unless a description has at most 200 characters that can be printed."""
    if len(description) > DESCRIPTION.longest or not description.isprintable():
        raise ServiceError(Code.INVALID_REQUEST, "A description has at most 200 characters that can be printed")


def find_any(id_or_reference: str, client_id: str | None = None, *, locked: bool = False) -> Transaction:
    """The transaction of any client, or of `client_id`, by its id or the client's reference; `locked` only by its id.

    Raises TRANSACTION_NOT_FOUND, and INVALID_REQUEST for a reference that several transactions have.
    """
    rows: list[Transaction] = []
    if is_id(id_or_reference):
        by_id = Transaction.select().where(Transaction.id == id_or_reference)
        rows = [row for row in (for_update(by_id) if locked else by_id) if client_id in (None, row.client_id)]
    if not rows and not locked:
        client_ids = [client_id] if client_id else [client.id for client in Client.select(Client.id)]
        for each in client_ids:
            rows += list(
                Transaction.select().where(Transaction.client_id == each, Transaction.reference == id_or_reference)
            )
    if not rows:
        raise ServiceError(Code.TRANSACTION_NOT_FOUND, "Transaction not found")
    if len(rows) > 1:
        listed = ", ".join(f"{row.id} of client {row.client_id}" for row in rows[:5])
        raise ServiceError(Code.INVALID_REQUEST, f"Several transactions have this reference: {listed}")
    return rows[0]


def _is_made_by_key(key_id: str, client_id: str) -> Any:
    """The condition that a key made a transaction, or the payout that it belongs to."""
    payouts = Payout.select(Payout.id).where(Payout.client_id == client_id, Payout.created_by == key_id)
    return ((Transaction.key_id == key_id) & Transaction.payout_id.is_null()) | Transaction.payout_id.in_(payouts)


def known_maker(menu: PayingMenu | None, context: RequestContext) -> MadeBy | None:
    """The key or the menu that makes a payment, as the call knows it already; None for a person."""
    of_menu = None if menu is None else MadeBy(MakerKind.MENU, menu.name, menu.title or None)
    if context.caller.key_id is not None:
        return MadeBy(MakerKind.KEY, context.caller.key_id, context.caller.key_name, via(of_menu))
    return of_menu


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
