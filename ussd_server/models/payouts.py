"""Payouts and their rows."""

from __future__ import annotations

from peewee import BooleanField, CompositeKey, IntegerField, TextField

from ussd_server.database.tables import CentsField, IdField, JsonField, MomentField, PeopleField, Table


class Payout(Table):
    """Many disbursements that one caller requests and another approves.

    `created_by` and `approved_by` are ids of API keys or users, or made of the names of operators. `people` are those
    behind the maker when it was made; null when a version without the column made it: such a draft is never approved.
    The totals are those of the ready rows. `due_at` is when the worker must act again: look up names of a draft, or
    send rows of an approved payout. `items_digest` is that of the judged rows; `draft_digest` and `approval_digest`
    bind it to the people, under a master key. A cancelled draft has no `draft_digest`. `replaced_by` is the corrected
    draft of the same reference that took the place of this one; a reference belongs to one payout that was not
    replaced. `send_at` is the time before which nothing is sent; null for at once. `reserved_at` is when its money was
    reserved, `needs_money_at` when it was due and its money was missing, `key_id` the API key that approved it, and
    `key_limit_cents` its daily limit then.
    """

    id = IdField(primary_key=True)
    client_id = IdField()
    reference = TextField()
    description = TextField(null=True)
    status = TextField()
    request_digest = TextField()
    item_count = IntegerField()
    ready_count = IntegerField()
    invalid_count = IntegerField()
    total_amount_cents = CentsField()
    total_fee_cents = CentsField()
    created_by = IdField()
    approved_by = IdField(null=True)
    request_id = TextField(null=True)
    created_at = MomentField()
    updated_at = MomentField()
    approved_at = MomentField(null=True)
    cancelled_at = MomentField(null=True)
    completed_at = MomentField(null=True)
    due_at = MomentField(null=True)
    leased_until = MomentField(null=True)
    lease_token = TextField(null=True)
    people = PeopleField(null=True)
    items_digest = TextField(null=True)
    draft_digest = TextField(null=True)
    approval_digest = TextField(null=True)
    replaced_by = IdField(null=True)
    send_at = MomentField(null=True)
    reserved_at = MomentField(null=True)
    needs_money_at = MomentField(null=True)
    key_id = IdField(null=True)
    traceparent = TextField(null=True)
    key_limit_cents = CentsField(null=True)

    class Meta:
        only_save_dirty = True


class PayoutItem(Table):
    """One row of a payout, as it was judged: ready, or with problems. Approval gives a ready row its transaction.

    `line` is the row's number in the file, or its place in the list, from 1. An invalid row keeps what could be read,
    and in `amount_text` what stands where an amount should. `registered_name` is the provider's, where it had one.
    """

    payout_id = IdField()
    line = IntegerField()
    phone_number = TextField(null=True)
    amount_cents = CentsField(null=True)
    amount_text = TextField(null=True)
    fee_cents = CentsField(null=True)
    provider = TextField(null=True)
    reference = TextField(null=True)
    description = TextField(null=True)
    name = TextField(null=True)
    name_match = TextField(null=True)
    registered_name = TextField(null=True)
    is_ready = BooleanField()
    problems = JsonField(null=True)
    transaction_id = IdField(null=True)

    class Meta:
        primary_key = CompositeKey("payout_id", "line")
