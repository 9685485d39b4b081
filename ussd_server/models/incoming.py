"""Money that payers send by themselves: payment codes, and what providers reported."""

from __future__ import annotations

from typing import Any

from peewee import BooleanField, TextField

from ussd_server.database.tables import CentsField, IdField, MomentField, Table, fixed


class PaymentCodePrefix(Table):
    """The letters with which the payment codes of a client begin. No prefix begins another."""

    client_id = fixed(IdField(primary_key=True))
    prefix = fixed(TextField())

    class Meta:
        table_name = "payment_code_prefixes"


class PaymentCode(Table):
    """A code that payers type, and the account that it credits. `code` is in upper case, without spaces and hyphens.

    `used_at` is when the first payment with it was booked; a code for single use takes no other one.
    """

    id = fixed(IdField(primary_key=True))
    client_id = fixed(IdField())
    code = fixed(TextField())
    description = TextField()
    account = TextField()
    amount_cents = CentsField(null=True)
    min_amount_cents = CentsField(null=True)
    max_amount_cents = CentsField(null=True)
    expires_at = MomentField(null=True)
    single_use = BooleanField()
    used_at = MomentField(null=True)
    created_at = fixed(MomentField())
    updated_at = MomentField()


class IncomingPayment(Table):
    """A payment that a provider reported or its statement has; each receipt of a provider is here once.

    `code` is what the payer typed, null for a line of a statement. `held_because` says why it fits nothing.
    `difference_id` is the difference of the statement that it was made from. `decided_by` are the operators who
    assigned it or marked it for return, `reason` is why they return it. `waits_for` is the collection whose money
    it may be; when that is final, the payment is booked or left out.
    """

    id = fixed(IdField(primary_key=True))
    provider = fixed(TextField())
    provider_transaction_id = fixed(TextField())
    amount_cents = fixed(CentsField())
    code = TextField(null=True)
    phone_number = TextField(null=True)
    name = TextField(null=True)
    paid_at = MomentField(null=True)
    status = TextField()
    held_because = TextField(null=True)
    transaction_id = IdField(null=True)
    difference_id = IdField(null=True)
    decided_by = TextField(null=True)
    reason = TextField(null=True)
    waits_for = IdField(null=True)
    received_at = fixed(MomentField())
    updated_at = MomentField()


def waits_for_operators() -> Any:
    """The condition on `IncomingPayment` that it is held."""
    return IncomingPayment.status == "held"
