"""Payment orders: a payment as its provider gets it."""

from __future__ import annotations

from ussd_server.database.tables import find_row
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Direction, PaymentOrder, Provider
from ussd_server.services.transactions.messages import Origin


def sent_reference(row: Transaction, provider: Provider) -> str | None:
    """The form in which the provider has our name for a payment, or would get it; None for a UUID."""
    is_plain = row.asked_at is None and provider.plain_references
    return str(row.provider_reference).replace("-", "") if is_plain else row.sent_reference


def payment_order(row: Transaction, provider: Provider) -> PaymentOrder:
    """Return what a provider is told of a payment, when it is sent or its status is queried."""
    assert row.provider_reference is not None, "only a payment with a provider is sent"
    assert row.phone_number is not None
    original = find_row(Transaction, row.refund_of) if row.refund_of else None
    # If a payer began the collection, or it was made elsewhere, the provider has no request of ours to refer to.
    is_known = original is not None and original.sent_to in (None, provider.place(Direction.COLLECTION))
    our_collection = original if original and is_known and original.origin != Origin.PAYER else None
    return PaymentOrder(
        transaction_id=row.id,
        provider_reference=sent_reference(row, provider) or row.provider_reference,
        direction=Direction(row.type),
        phone_number=row.phone_number,
        amount_cents=row.amount_cents,
        currency=row.currency,
        note=row.description or "",
        asked_at=row.asked_at,
        original_provider_reference=our_collection.provider_reference if our_collection else None,
        original_provider_transaction_id=original.provider_transaction_id if original else None,
    )
