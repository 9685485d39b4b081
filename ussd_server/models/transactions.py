"""Transactions, their names and status history, and the fees that clients pay."""

from __future__ import annotations

from datetime import UTC, datetime

from peewee import BooleanField, IntegerField, TextField

from ussd_server.database.tables import CentsField, IdField, JsonField, MomentField, Table, fixed

QUEUED_UNTIL = datetime(9999, 1, 1, tzinfo=UTC)
"""The `due_at` of a transaction that waits in the queue of its payout."""


class Transaction(Table):
    """One payment.

    `reference` is the client's own name for it, `idempotency_key` that of its first request (`IdempotencyKey` has those
    of its repeats); both are unique for the client for ever. `request_digest` distinguishes a repeat from a reuse.
    `confirmation` is the step of a USSD conversation that created it. `provider_account` is the account at the
    provider, which stays once it was sent. `provider_reference` identifies it there, stored before the first byte
    leaves; `unsent_before` counts the earlier attempts to pay a row of a payout that had it and were never sent, null
    for none. `sent_reference` is the form in which it was sent, null for a UUID. `sent_to` is the place where it was
    first sent (`Provider.place`), null while nothing was sent: only there it is queried and sent again.
    `provider_receipt` is the receipt in the subscriber's message, where that is not
    `provider_transaction_id`. `asked_at` is null while it is certain that nothing was sent. `due_at` is when the
    worker must act again (null: nothing left to do) and `due_source` what brought that forward; `leased_until` is
    set while a worker has it. A review that was opened and not closed waits for an operator; `review_note` says how
    it ended and who decided it. `request_id` and `traceparent` are those of the call which created it, for the logs
    and for other servers. `payout_id` is the payout that it is a row of. `key_id` is the API key that paid it, or
    that approved its payout, `user_id` likewise a person; `operator` is the name of an operator who made it. `origin`
    is who began it: `client`, `ussd` for a menu, `payer`. `same_money_as` is the
    other record of the same money: of a collection and a payment that the payer began. `contested_id` is the payment
    that has the receipt of this one; operators say in the review whether both are one. Only a correction
    has an `effect`, `credit` or `debit`, and a `reason`; `corrects` is the transaction that it corrects, None for
    none. One that takes money of a collection back has it as its `refund_of`, too. From
    `released_at` on its money counts nowhere: another one has it, operators took it back, or it never moved.
    """

    id = fixed(IdField(primary_key=True))
    client_id = fixed(IdField())
    type = fixed(TextField())
    status = TextField()
    phone_number = fixed(TextField(null=True))
    to_phone_number = fixed(TextField(null=True))
    amount_cents = fixed(CentsField())
    fee_cents = fixed(CentsField())
    currency = fixed(TextField())
    account = fixed(TextField())
    provider = fixed(TextField(null=True))
    provider_account = TextField(null=True)
    provider_reference = fixed(IdField(null=True))
    unsent_before = fixed(IntegerField(null=True))
    provider_transaction_id = TextField(null=True)
    provider_receipt = TextField(null=True)
    sent_reference = TextField(null=True)
    sent_to = TextField(null=True)
    reference = fixed(TextField())
    idempotency_key = fixed(TextField(null=True))
    request_digest = fixed(TextField())
    failure_code = TextField(null=True)
    late = BooleanField()
    session_id = fixed(IdField(null=True))
    confirmation = fixed(TextField(null=True))
    refund_of = fixed(IdField(null=True))
    description = fixed(TextField(null=True))
    metadata = fixed(JsonField(null=True))
    callback_url = fixed(TextField(null=True))
    created_at = fixed(MomentField())
    updated_at = MomentField()
    asked_at = MomentField(null=True)
    ask_attempts = IntegerField()
    checks = IntegerField()
    completed_at = MomentField(null=True)
    due_at = MomentField(null=True)
    due_source = TextField()
    leased_until = MomentField(null=True)
    lease_token = TextField(null=True)
    review_reason = TextField(null=True)
    review_opened_at = MomentField(null=True)
    review_closed_at = MomentField(null=True)
    review_note = TextField(null=True)
    request_id = TextField(null=True)
    traceparent = TextField(null=True)
    payout_id = fixed(IdField(null=True))
    key_id = fixed(IdField(null=True))
    origin = fixed(TextField())
    same_money_as = IdField(null=True)
    contested_id = IdField(null=True)
    user_id = fixed(IdField(null=True))
    menu_id = fixed(IdField(null=True))
    menu_version = fixed(IntegerField(null=True))
    operator = TextField(null=True)
    effect = fixed(TextField(null=True))
    corrects = fixed(IdField(null=True))
    reason = fixed(TextField(null=True))
    released_at = MomentField(null=True)

    class Meta:
        only_save_dirty = True

    @property
    def is_in_review(self) -> bool:
        """Whether a review of it is open; `IN_REVIEW` is the same as a condition of a query."""
        return self.review_opened_at is not None and self.review_closed_at is None


IN_REVIEW = Transaction.review_opened_at.is_null(False) & Transaction.review_closed_at.is_null()


class IdempotencyKey(Table):
    """An idempotency key of a client and the transaction that it names; kept for ever.

    The database writes the key that came with a transaction, `transactions/create.py` those of its repeats.
    """

    client_id = IdField()
    key = TextField()
    transaction_id = IdField()
    created_at = MomentField()

    class Meta:
        primary_key = False


class StatusChange(Table):
    """One status change of a transaction: the new status, when, and its source. Never edited.

    `detail` is the provider's own code, or an operator's reason. `provider_call` is the rest of what is known about
    the call that the change followed, by the names of `ChangeDetail`.
    """

    transaction_id = IdField()
    sequence = IntegerField()
    client_id = IdField()
    status = TextField()
    source = TextField()
    detail = TextField(null=True)
    provider_call = JsonField(null=True)
    created_at = MomentField()

    class Meta:
        table_name = "transaction_events"
        primary_key = False


class Fee(Table):
    """What a client pays for a type of transaction: a fixed part and a share in basis points (1/100 of a percent)."""

    client_id = IdField()
    type = TextField()
    fixed_cents = CentsField()
    share_basis_points = IntegerField()

    class Meta:
        primary_key = False
