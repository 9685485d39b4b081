"""Payment codes, with which payers send money by themselves."""

from __future__ import annotations

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

    `used_at` is when the first payment with it was booked; a code for single use takes no other one. `account_since` is
    when it was made or got its account: what was paid before is not its money.
    """

    id = fixed(IdField(primary_key=True))
    client_id = fixed(IdField())
    code = fixed(TextField())
    description = TextField()
    account = TextField()
    account_since = MomentField()
    amount_cents = CentsField(null=True)
    min_amount_cents = CentsField(null=True)
    max_amount_cents = CentsField(null=True)
    expires_at = MomentField(null=True)
    single_use = BooleanField()
    used_at = MomentField(null=True)
    created_at = fixed(MomentField())
    updated_at = MomentField()
