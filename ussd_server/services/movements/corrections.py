"""Corrections: what moved and is no payment of ours, booked by two operators; and shortfalls, filled later."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from ussd_server.context import RequestContext
from ussd_server.database.tables import find_row, lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.languages import marked
from ussd_server.models.clients import Client
from ussd_server.models.ledger import Account
from ussd_server.models.movements import IN, Movement, MovementReceipt
from ussd_server.models.transactions import Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.services.accounts.ledger import (
    BANK_ACCOUNT,
    PROVIDER_ACCOUNT,
    SHORTFALL_ACCOUNT,
    lacking_cents,
    lock_accounts,
)
from ussd_server.services.gates.messages import UseKind
from ussd_server.services.gates.movements import booking
from ussd_server.services.gates.receipts import BANK, DIRECTIONS, account_of, direction_of
from ussd_server.services.incoming.booking import shortened
from ussd_server.services.leases import end_lease
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.movements.messages import CorrectionPreview, CorrectMovement, FillShortfall, MovementView
from ussd_server.services.movements.movements import (
    find_movement,
    held_movement,
    refusal,
    require_refunds_final,
    sign_last_use,
    told_of,
    view_of_movement,
)
from ussd_server.services.operator_names import require_two_people
from ussd_server.services.processing.outcomes import fail, follow_refunds
from ussd_server.services.providers.accounts import provider_of
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.audited import audit_payment, audited
from ussd_server.services.transactions.create import (
    DraftColumns,
    Plan,
    RequestIdentity,
    TransactionCreator,
    Within,
    digest_of,
)
from ussd_server.services.transactions.history import write_transaction_event
from ussd_server.services.transactions.messages import (
    MAIN_ACCOUNT,
    SUCCESSFUL,
    UNFINISHED,
    ChangeDetail,
    CreatedTransaction,
    Effect,
    Source,
    TransactionStatus,
    TransactionType,
    TransactionView,
)
from ussd_server.services.transactions.transactions import CORRECTION, FILL, find_any, free_reference
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id, written_amount

_DONE = marked({Effect.CREDIT: "added to", Effect.DEBIT: "taken from"})


class CorrectionService:
    """Books corrections, for operators only. They cost no fee."""

    def __init__(self, runtime: Runtime, creator: TransactionCreator) -> None:
        self._clock, self._vault, self._outbox = runtime.clock, runtime.vault, runtime.mail_outbox
        self._creator, self._providers = creator, runtime.providers

    def correct(self, request: CorrectMovement, context: RequestContext) -> MovementView:
        """Book a held movement for a client; what an account has too little of is the client's shortfall.

        A payment of ours that it is told of (`payment`, else the one whose receipt it has or that its line names) ends
        as failed, if it had not succeeded: its own money is the movement.
        Raises NOT_FOUND, TRANSACTION_NOT_FOUND, and INVALID_REQUEST for a movement that is not held or that another
        payment decides about, for an account or a payment of another client, while a refund of the payment is not
        final, and unless two different people are named with a reason.
        """
        context.require_operator()
        names = require_two_people(request.by, request.second, request.reason)
        with unit_of_work():
            payment = _corrected(request)
            movement = held_movement(request.movement_id, decided=payment)
            if payment is not None:
                _require_fits(payment, movement)
                if payment.status not in SUCCESSFUL:
                    self._end(payment, movement, request.reason.strip(), names, context)
            self._book(movement, payment, request, names, context)
            sign_last_use(self._vault, movement.id)
        return view_of_movement(movement)

    def preview(self, request: CorrectMovement, context: RequestContext) -> CorrectionPreview:
        """What `correct` would book now. Raises as `correct`, and changes nothing."""
        context.require_operator()
        with unit_of_work():
            payment = _corrected(request)
            movement = held_movement(request.movement_id, decided=payment)
            if payment is not None:
                _require_fits(payment, movement)
            return CorrectionPreview(
                view_of_movement(movement),
                _effect_of(movement),
                _account_of(request, payment),
                Client.get_by_id(request.client_id).name,
                None if payment is None else payment.id,
                None if payment is None or payment.status in SUCCESSFUL else TransactionStatus.FAILED,
            )

    def fill(self, request: FillShortfall, context: RequestContext) -> TransactionView:
        """Fill a client's shortfall with what its account has available; all of it, or as much as there is.

        INVALID_REQUEST without a shortfall, for an account without money, and unless two different people are named
        with a reason. NOT_FOUND for an unknown client.
        """
        context.require_operator()
        names = require_two_people(request.by, request.second, request.reason)
        reference = f"{FILL}{new_id(self._clock.now())}"
        with unit_of_work():
            _require_client(request.client_id)
            _require_account(request.client_id, request.account)
            available = lock_accounts(request.client_id, {request.account, SHORTFALL_ACCOUNT})
            cents = min(available.get(request.account, 0), -available.get(SHORTFALL_ACCOUNT, 0))
            if cents <= 0:
                has_shortfall = available.get(SHORTFALL_ACCOUNT)
                raise refusal("The account has nothing available" if has_shortfall else "The client has no shortfall")
            columns = DraftColumns(
                account=request.account,
                effect=Effect.DEBIT,
                reason=request.reason.strip(),
                request_id=context.request_id,
                operator=names[0],
            )
            plan = Plan(cents, columns, moves=(request.account, SHORTFALL_ACCOUNT))
            return self._create(request.client_id, plan, reference, names, context).transaction

    def _end(
        self, payment: Transaction, movement: Movement, reason: str, names: Collection[str], context: RequestContext
    ) -> None:
        """End a payment that did not succeed: its money is a correction, and what is told later changes nothing."""
        now = self._clock.now()
        end_lease(payment)
        payment.updated_at = now
        if payment.is_in_review:
            payment.review_closed_at, payment.contested_id = now, None
            payment.review_note = f"Operators booked movement {movement.id} as a correction"
            audit_payment(payment, "transaction.reviewed", context, now, reason, ", ".join(names))
        if payment.status in UNFINISHED:
            note = f"Operators booked what moved, {written_amount(movement.amount_cents)}, as a correction"
            fail(payment, FailureCode.PROVIDER_ERROR, Source.OPERATOR, now, ChangeDetail(note=note))
        payment.due_at = None
        payment.save()

    def _book(
        self,
        movement: Movement,
        payment: Transaction | None,
        request: CorrectMovement,
        names: Collection[str],
        context: RequestContext,
    ) -> None:
        effect, account = _effect_of(movement), _account_of(request, payment)
        is_bank = movement.account == BANK
        outside = BANK_ACCOUNT if is_bank else PROVIDER_ACCOUNT.format(movement.account)
        is_debit = effect is Effect.DEBIT
        lacking = lacking_cents(request.client_id, account, outside, movement.amount_cents) if is_debit else 0
        by, *_ = names
        columns = DraftColumns(
            account=account,
            phone_number=movement.phone_number,
            provider=None if is_bank else provider_of(movement.account, self._providers),
            provider_account=None if is_bank else movement.account,
            provider_transaction_id=_receipt_of(movement),
            effect=effect,
            corrects=None if payment is None else payment.id,
            reason=request.reason.strip(),
            request_id=context.request_id,
            operator=by,
        )
        taken_back = _taken_back_by(payment) if is_debit and payment is not None else None
        if taken_back is not None:
            columns["refund_of"] = taken_back.id
        moves = (account, outside) if is_debit else (outside, account)
        reference = free_reference(request.client_id, f"{CORRECTION}{shortened(movement.receipt or movement.id)}")
        plan = Plan(movement.amount_cents, columns, moves=moves, lacking_cents=lacking)
        self._create(request.client_id, plan, reference, names, context, movement)
        if taken_back is not None:
            follow_refunds(taken_back, Source.OPERATOR, self._clock.now())

    def _create(
        self,
        client_id: str,
        plan: Plan,
        reference: str,
        names: Collection[str],
        context: RequestContext,
        movement: Movement | None = None,
    ) -> CreatedTransaction:
        """Create a correction, with its audit event, its own event and the mail to the owners."""
        now, decided_by, reason = self._clock.now(), ", ".join(names), plan.columns["reason"]
        within: Within = partial(
            audited, action="account.corrected", context=context, reason=reason, decided_by=decided_by
        )
        if movement is not None:
            within = booking(movement, within, now, decided_by, UseKind.CORRECTION, reason)
        digest = digest_of({"correction": reference, "amount_cents": plan.amount_cents})
        identity = RequestIdentity(client_id, TransactionType.CORRECTION, digest, reference)
        created = self._creator.create(identity, plan, Source.OPERATOR, within)
        row = find_row(Transaction, created.transaction.transaction_id)
        write_transaction_event(row, "account.corrected", now)
        kind = MailKind.ACCOUNT_CORRECTED
        about = {
            "amount": written_amount(row.amount_cents),
            "effect": _DONE[Effect(row.effect)],
            "account": row.account,
            "why": reason,
            "page": f"/console/transactions/{row.id}",
        }
        self._outbox.notify_people(kind, client_id, about, now, occasion=f"{kind}/{row.id}")
        return created


def _corrected(request: CorrectMovement) -> Transaction | None:
    """The payment that a correction corrects, locked before anything of its money; None for none.

    INVALID_REQUEST for one of another client, NOT_FOUND for an unknown client.
    """
    _require_client(request.client_id)
    if request.payment is not None:
        payment = find_any(request.payment, request.client_id)
        return lock_row(Transaction, payment.id)
    told = told_of(find_movement(request.movement_id))
    return None if told is None or told.client_id != request.client_id else lock_row(Transaction, told.id)


def _taken_back_by(payment: Transaction) -> Transaction | None:
    """The collection, locked, of which a debit for a payment takes money back; None for none."""
    if payment.type == TransactionType.COLLECTION:
        return payment
    return None if payment.refund_of is None else lock_row(Transaction, payment.refund_of)


def _receipt_of(movement: Movement) -> str | None:
    """The receipt under which statements have a movement: the one of its first line, else one that it got since."""
    if movement.receipt is not None:
        return str(movement.receipt)
    since = MovementReceipt.get_or_none(MovementReceipt.movement_id == movement.id)
    return None if since is None else str(since.written)


def _require_fits(payment: Transaction, movement: Movement) -> None:
    if payment.type not in DIRECTIONS or account_of(payment) != movement.account:
        raise refusal(f"Transaction {payment.id} moves no money at {movement.account}")
    has_moved = payment.status in SUCCESSFUL
    if not has_moved and direction_of(payment) != movement.direction:
        raise refusal(f"Transaction {payment.id} has not moved money yet that could come back")
    if has_moved and direction_of(payment) != movement.direction:
        require_refunds_final(payment)


def _effect_of(movement: Movement) -> Effect:
    return Effect.CREDIT if movement.direction == IN else Effect.DEBIT


def _account_of(request: CorrectMovement, payment: Transaction | None) -> str:
    """The account of a correction: the one that is named, else that of the payment, else `main`."""
    account = request.account or (payment.account if payment is not None else MAIN_ACCOUNT)
    _require_account(request.client_id, account)
    return account


def _require_client(client_id: str) -> None:
    if not Client.select().where(Client.id == client_id).exists():
        raise ServiceError(Code.NOT_FOUND, "Client not found")


def _require_account(client_id: str, account: str) -> None:
    """INVALID_REQUEST for what is no account of the client's own, or of its subscribers."""
    kept = Account.select().where(Account.client_id == client_id, Account.name == account, Account.kind == "subscriber")
    if account != MAIN_ACCOUNT and not kept.exists():
        raise refusal("The client keeps no such account: main, or the number of a subscriber with an account")
