"""Books incoming payments: which code takes a payment, and the collection that it becomes."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.clients import Client
from ussd_server.models.incoming import PaymentCode
from ussd_server.models.movements import Movement
from ussd_server.services.accounts.ledger import PROVIDER_ACCOUNT
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.gates.movements import booking
from ussd_server.services.incoming.codes import canonical
from ussd_server.services.providers.accounts import provider_of
from ussd_server.services.runtime import Runtime
from ussd_server.services.sms.receipts import ReceiptWriter
from ussd_server.services.transactions.create import DraftColumns, Plan, RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.messages import Origin, Source, TransactionType
from ussd_server.services.transactions.transactions import INCOMING, free_reference
from ussd_server.values import written_amount

_LONGEST_IN_REFERENCE = 48
# A till's clock may be behind ours by so much.
_GRACE = timedelta(seconds=30)


def find_code(typed: str, *, locked: bool = False) -> PaymentCode | None:
    """The payment code that a payer typed exactly, but for case, spaces and hyphens; None for any other text."""
    rows = PaymentCode.select().where(PaymentCode.code == canonical(typed))
    row: PaymentCode | None = (for_update(rows) if locked else rows).first()
    return row


def misfit_of(
    code: PaymentCode | None, amount_cents: int | None, now: datetime, paid_at: datetime | None = None
) -> str | None:
    """Why a code does not take a payment of this amount, for operators and payers; None if it does.

    Without an amount: of any. `paid_at` is when the payer paid, None for a payment that is still to be made.
    """
    if code is None:
        return "This code is not known"
    if not Client.get_by_id(code.client_id).is_active:
        return "Payments to this client are not taken at present"
    if paid_at is not None and paid_at.replace(microsecond=0) + _GRACE < code.account_since.replace(microsecond=0):
        return "This code was made, or got another account, after the payer paid"
    if code.expires_at is not None and code.expires_at <= now:
        return "This code has expired"
    if code.single_use and code.used_at is not None:
        return "This code was for one payment, which has been made"
    return None if amount_cents is None or takes_amount(code, amount_cents) else f"This code takes {_amounts_of(code)}"


def takes_amount(code: PaymentCode, amount_cents: int) -> bool:
    if code.amount_cents is not None:
        return bool(amount_cents == code.amount_cents)
    return (code.min_amount_cents or 0) <= amount_cents <= (code.max_amount_cents or amount_cents)


def write_movement_event(
    action: str,
    row: Movement,
    context: RequestContext,
    reason: str | None,
    client_id: str | None = None,
    decided_by: str | None = None,
    *,
    is_automatic: bool = False,
) -> None:
    """Add what became of a movement to the audit trail, of a client or of operators. Call after its change."""
    write_audit_event(
        action,
        context,
        row.updated_at,
        client_id=client_id,
        object_id=row.transaction_id or row.id,
        reason=reason,
        amount_cents=row.amount_cents,
        phone_number=row.phone_number,
        decided_by=decided_by,
        is_automatic=is_automatic,
    )


class IncomingBook:
    """Books held movements as collections. Call within the unit of work that locked the movement and the code."""

    def __init__(self, runtime: Runtime, creator: TransactionCreator) -> None:
        self._creator, self._receipts = creator, ReceiptWriter(runtime)
        self._clock, self._providers = runtime.clock, runtime.providers

    def book(
        self,
        movement: Movement,
        code: PaymentCode,
        source: Source,
        context: RequestContext,
        decided_by: str | None = None,
    ) -> None:
        """Credit the account of a code with a held movement.

        SERVICE_UNAVAILABLE while the operator holds new money, unless operators decide.
        """
        now = self._clock.now()
        # Two providers may use the same receipt, and a released payment keeps its name.
        reference = free_reference(code.client_id, f"{INCOMING}{shortened(movement.receipt or movement.id)}")
        digest = digest_of({"movement": movement.id, "amount_cents": movement.amount_cents})
        content = {"amount_cents": movement.amount_cents, "phone_number": movement.phone_number}
        identity = RequestIdentity(code.client_id, TransactionType.COLLECTION, digest, reference, content=content)
        columns = DraftColumns(
            account=code.account,
            phone_number=movement.phone_number,
            provider=provider_of(movement.account, self._providers),
            provider_account=movement.account,
            provider_transaction_id=movement.receipt,
            description=code.description,
            metadata={"payment_code": code.code},
            request_id=context.request_id,
            origin=Origin.PAYER,
        )
        moves = PROVIDER_ACCOUNT.format(movement.account), code.account
        plan = Plan(movement.amount_cents, columns, moves=moves)
        self._creator.create(identity, plan, source, booking(movement, self._receipts.after, now, decided_by))
        if code.used_at is None:
            PaymentCode.update(used_at=now).where(PaymentCode.id == code.id).execute()


def shortened(receipt: str) -> str:
    """A receipt as a part of a reference, which has 64 characters at most."""
    is_short = len(receipt) <= _LONGEST_IN_REFERENCE
    return receipt if is_short else sha256(receipt.encode()).hexdigest()[:_LONGEST_IN_REFERENCE]


def _amounts_of(code: PaymentCode) -> str:
    if code.amount_cents is not None:
        return written_amount(code.amount_cents)
    least, most = code.min_amount_cents, code.max_amount_cents
    bounds = [f"at least {written_amount(least)}" if least else "", f"at most {written_amount(most)}" if most else ""]
    return " and ".join(filter(None, bounds))
