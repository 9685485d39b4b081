"""Payouts and their rows."""

from __future__ import annotations

from peewee import BooleanField, CompositeKey, IntegerField, TextField

from ussd_server.database.tables import CentsField, IdField, JsonField, MomentField, PeopleField, Table, fixed


class Payout(Table):
    """Many disbursements that one caller requests and another approves.

    `created_by` and `approved_by` are ids of API keys or users, or made of the names of operators; `operator` is the
    name of an operator who made it. `people` are those behind the maker when it was made.
    The totals are those of the ready rows. `due_at` is when the worker must act again: look up names of a draft, or
    send rows of an approved payout. `items_digest` is that of the validated rows; `draft_digest` and `approval_digest`
    bind it to the people, under a master key. A cancelled draft has no `draft_digest`. `replaced_by` is the corrected
    draft of the same reference that took the place of this one; a reference belongs to one payout that was not
    replaced. `send_at` is the time before which nothing is sent; null for at once. `reserved_at` is when its money was
    reserved, `needs_money_at` when it was due and its money was missing, `key_id` the API key that approved it last.
    `counted_key_id` is the key for whose daily limit its rows count: of those that approved it, the one with the lowest
    limit, `key_limit_cents`. `approved_fee_cents` are the fees that an approver named; other fees make it a draft
    again. `withdrawn_at` is when its approval was withdrawn last, `withdrawal_reason` why, in words. `revoked_at` is
    when the key that made the draft was revoked: it is cancelled, and its reference is free. `reservation_number`
    counts the reservations: after a withdrawn one, rows become transactions with other references. `cancel_note` is
    what the canceller wrote. `copied_from` is the first payout of those that pay the same rows, of which only one may
    pay each.
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
    created_at = fixed(MomentField())
    updated_at = MomentField()
    approved_at = MomentField(null=True)
    cancelled_at = MomentField(null=True)
    completed_at = MomentField(null=True)
    due_at = MomentField(null=True)
    leased_until = MomentField(null=True)
    lease_token = TextField(null=True)
    people = fixed(PeopleField())
    items_digest = fixed(TextField())
    draft_digest = TextField(null=True)
    approval_digest = TextField(null=True)
    replaced_by = IdField(null=True)
    send_at = fixed(MomentField(null=True))
    reserved_at = MomentField(null=True)
    needs_money_at = MomentField(null=True)
    key_id = IdField(null=True)
    traceparent = TextField(null=True)
    reservation_number = IntegerField(default=1)
    approved_fee_cents = CentsField(null=True)
    withdrawn_at = MomentField(null=True)
    withdrawal_reason = TextField(null=True)
    revoked_at = MomentField(null=True)
    cancel_note = TextField(null=True)
    key_limit_cents = CentsField(null=True)
    operator = TextField(null=True)
    copied_from = IdField(null=True)
    counted_key_id = IdField(null=True)

    class Meta:
        only_save_dirty = True


class Approval(Table):
    """One approval of a payout. A payout may need several, of different people.

    `made_by` is the id of a key or a person, or made of the names of operators, which are in `operators`. `people` are
    those behind the caller. `total_fee_cents` are the fees that the approver named. `withdrawn_at` is when it stopped
    counting. `digest` binds it to the validated payout, under a master key.
    """

    id = fixed(IdField(primary_key=True))
    payout_id = fixed(IdField())
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
    """One row of a payout, as it was validated: ready, or with problems. Approval gives a ready row its transaction.

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

    class Meta:
        primary_key = CompositeKey("payout_id", "line")


def transaction_reference(payout: str, row: str | None, reservation_number: int) -> str:
    """The reference of the transaction that a row becomes: a row without problems has one.

    After a reservation that was withdrawn, its transactions have the first references for ever.
    """
    return f"{payout}/{row}" + (f"/approval-{reservation_number}" if reservation_number > 1 else "")
