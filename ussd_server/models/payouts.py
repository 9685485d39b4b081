"""Payouts and their rows."""

from __future__ import annotations

from peewee import BooleanField, CompositeKey, IntegerField, TextField

from ussd_server.database.tables import CentsField, IdField, JsonField, MomentField, PeopleField, Table, fixed


class Payout(Table):
    """Many disbursements that one caller requests and another approves.

    `request_id` is that of the call that made it, `approval_request_id` of the one that approved it last.
    `created_by` and `approved_by` are ids of API keys or users, or made of the names of operators; `operator` is the
    name of an operator who made it. `people` are those behind the maker when it was made.
    The totals are those of the ready rows. `due_at` is when the worker must act again: look up names of a draft, or
    send rows of an approved payout. `items_digest` is that of the validated rows; `draft_digest` and `approval_digest`
    bind it to the people, under a master key. A cancelled draft has no `draft_digest`. `replaced_by` is the corrected
    draft of the same reference that took the place of this one; a reference belongs to one payout that was not
    replaced. `send_at` is the time before which nothing is sent; null for at once. `reserved_at` is when its money was
    reserved, `needs_money_at` when it was due and its money was missing, `key_id` the API key that approved it last.
    `held_cents` is the money that is held for its waiting rows; the database reserves it on the client's main account.
    `counted_key_id` is the key for whose daily limit the reservation counts: of those that approved it, the one with
    the lowest limit, `key_limit_cents`. `approved_fee_cents` are the fees that an approver named; other fees make it a
    draft again. `withdrawn_at` is when its approval was withdrawn last, `withdrawal_reason` why, in words. `revoked_at`
    is when the key that made the draft was revoked: it is cancelled, and its reference is free. `cancel_note` is what
    the canceller wrote.
    A retry opens the next `round`: some of the rows are a draft again, made by `round_by` and the people behind it.
    Status, approval, reservation and times are those of the last round; `round_count` and the sums beside it are those
    of its rows.
    """

    id = fixed(IdField(primary_key=True))
    client_id = fixed(IdField())
    reference = fixed(TextField())
    description = fixed(TextField(null=True))
    status = TextField()
    request_digest = fixed(TextField())
    item_count = fixed(IntegerField())
    ready_count = fixed(IntegerField())
    invalid_count = fixed(IntegerField())
    total_amount_cents = fixed(CentsField())
    total_fee_cents = CentsField()
    created_by = fixed(IdField())
    approved_by = IdField(null=True)
    request_id = TextField(null=True)
    approval_request_id = TextField(null=True)
    created_at = fixed(MomentField())
    updated_at = MomentField()
    approved_at = MomentField(null=True)
    cancelled_at = MomentField(null=True)
    completed_at = MomentField(null=True)
    due_at = MomentField(null=True)
    leased_until = MomentField(null=True)
    lease_token = TextField(null=True)
    people = fixed(PeopleField())
    items_digest = TextField()
    draft_digest = TextField(null=True)
    approval_digest = TextField(null=True)
    replaced_by = IdField(null=True)
    send_at = MomentField(null=True)
    reserved_at = MomentField(null=True)
    needs_money_at = MomentField(null=True)
    key_id = IdField(null=True)
    traceparent = TextField(null=True)
    approved_fee_cents = CentsField(null=True)
    withdrawn_at = MomentField(null=True)
    withdrawal_reason = TextField(null=True)
    revoked_at = MomentField(null=True)
    cancel_note = TextField(null=True)
    key_limit_cents = CentsField(null=True)
    operator = TextField(null=True)
    counted_key_id = IdField(null=True)
    held_cents = CentsField(default=0)
    round = IntegerField(default=1)
    round_by = IdField()
    round_people = PeopleField()
    round_count = IntegerField()
    round_amount_cents = CentsField()
    round_fee_cents = CentsField()

    class Meta:
        only_save_dirty = True


class Approval(Table):
    """One approval of a payout. A payout may need several, of different people.

    `made_by` is the id of a key or a person, or made of the names of operators, which are in `operators`. `people` are
    those behind the caller. `total_fee_cents` are the fees that the approver named. It counts for one `round`.
    `withdrawn_at` is when it stopped counting. `digest` binds it to the validated payout, under a master key.
    """

    id = fixed(IdField(primary_key=True))
    payout_id = fixed(IdField())
    round = fixed(IntegerField(default=1))
    made_by = fixed(IdField())
    people = fixed(PeopleField())
    key_id = fixed(IdField(null=True))
    operators = fixed(JsonField(null=True))
    note = fixed(TextField(null=True))
    total_fee_cents = fixed(CentsField(null=True))
    created_at = fixed(MomentField())
    withdrawn_at = MomentField(null=True)
    digest = TextField()

    class Meta:
        table_name = "payout_approvals"


class ApprovalRules(Table):
    """How many approvals the payouts of a client need, by their sum; a client without a row needs one.

    A rule is a pair: a sum in cents, and the approvals above it. `proposed` are rules that ask for less, until another
    person than `proposed_by` has confirmed them. `digest` binds all of it to the client, under a master key.
    """

    id = IdField(primary_key=True, column_name="client_id")
    rules = JsonField()
    proposed = JsonField(null=True)
    proposed_by = IdField(null=True)
    updated_at = MomentField()
    digest = TextField()

    class Meta:
        table_name = "approval_rules"


class PayoutItem(Table):
    """One row of a payout, as it was validated: ready, or with problems. It is one intent to pay, with attempts.

    `round` is the last round that it is in, `attempt` the number of the attempt that this round makes. It `waits` from
    the reservation until it is about to be sent: then it gets its transaction. `transaction_id` is that of the last
    attempt, or of an earlier one that succeeded after all; `PayoutAttempt` has every one. `fee_cents` is the fee that
    was agreed for the last attempt.
    `line` is the row's number in the file, or its place in the list, from 1. An invalid row keeps what could be read,
    and in `amount_text` what stands where an amount should. `metadata` are further columns of the file, by their
    headings. `registered_name` is the provider's, where it had one.
    """

    payout_id = fixed(IdField())
    line = fixed(IntegerField())
    phone_number = fixed(TextField(null=True))
    amount_cents = fixed(CentsField(null=True))
    amount_text = fixed(TextField(null=True))
    fee_cents = CentsField(null=True)
    provider = fixed(TextField(null=True))
    reference = fixed(TextField(null=True))
    description = fixed(TextField(null=True))
    name = fixed(TextField(null=True))
    name_match = TextField(null=True)
    registered_name = TextField(null=True)
    is_ready = fixed(BooleanField())
    problems = fixed(JsonField(null=True))
    transaction_id = IdField(null=True)
    metadata = JsonField(null=True)
    round = IntegerField(default=1)
    attempt = IntegerField(default=1)
    waits = BooleanField(default=False)

    class Meta:
        primary_key = CompositeKey("payout_id", "line")


class PayoutAttempt(Table):
    """One attempt to pay a row: its transaction, and the round that made it."""

    payout_id = IdField()
    line = IntegerField()
    number = IntegerField()
    round = IntegerField()
    transaction_id = IdField()

    class Meta:
        table_name = "payout_attempts"
        primary_key = CompositeKey("payout_id", "line", "number")


class PayoutHold(Table):
    """One reservation of a payout: its sum, and what of it was released without an attempt.

    `number` counts the reservations. The rest counts for the daily limit of the key, on the day of the reservation.
    """

    payout_id = IdField()
    number = IntegerField()
    round = IntegerField()
    key_id = IdField(null=True)
    day = TextField()
    reserved_cents = CentsField()
    released_cents = CentsField(default=0)

    class Meta:
        table_name = "payout_holds"
        primary_key = CompositeKey("payout_id", "number")


def transaction_reference(payout: str, row: str | None, attempt: int) -> str:
    """The reference of an attempt's transaction, and its name at the provider: nothing else is in it."""
    return f"{payout}/{row}" + (f"/{attempt}" if attempt > 1 else "")
