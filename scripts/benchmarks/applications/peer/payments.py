"""Payments, statement by statement."""

from __future__ import annotations

import hashlib
from typing import Any

from flask import Response, abort, g, request
from marshmallow import Schema, ValidationError, fields, validate
from peewee import IntegrityError

from benchmarks.applications.peer.app import app, by_key, refusal, success
from benchmarks.applications.peer.common import written
from benchmarks.applications.peer.models import (
    Account,
    Event,
    Fee,
    Transaction,
    TransactionEvent,
    Transfer,
    database,
)


class PaymentBody(Schema):
    """The body of a request for a payment."""

    type = fields.String(required=True, validate=validate.OneOf(["disbursement"]))
    phone_number = fields.String(required=True, validate=validate.Regexp(r"\+256[0-9]{9}\Z"))
    amount = fields.Decimal(
        required=True, places=2, validate=validate.Range(0, 1_000_000, min_inclusive=False, max_inclusive=False)
    )
    reference = fields.String(required=True, validate=validate.Length(1, 64))
    provider = fields.String(required=True, validate=validate.OneOf(["mtn", "airtel", "sandbox"]))
    description = fields.String(allow_none=True, validate=validate.Length(max=200))
    metadata = fields.Dict(allow_none=True)


class PaymentRecord(Schema):
    """A payment as clients see it."""

    transaction_id = fields.String(attribute="id")
    reference = fields.String()
    type = fields.String()
    phone_number = fields.String()
    to_phone_number = fields.Constant(None)
    amount = fields.Function(lambda row: row.amount_cents // 100)
    fee = fields.Function(lambda row: row.fee_cents // 100)
    currency = fields.Constant("UGX")
    account = fields.String()
    provider = fields.String()
    provider_reference = fields.String()
    provider_transaction_id = fields.Constant(None)
    status = fields.String()
    failure = fields.Constant(None)
    late = fields.Constant(False)
    session_id = fields.Constant(None)
    description = fields.String()
    metadata = fields.Dict()
    created_at = fields.Function(lambda row: written(row.created_at))
    updated_at = fields.Function(lambda row: written(row.updated_at))
    completed_at = fields.Constant(None)
    refund_of = fields.Constant(None)
    refunded_amount = fields.Constant(0)
    payout_id = fields.Constant(None)
    origin = fields.Constant("client")
    next_check_at = fields.Function(lambda row: written(row.due_at))
    same_money_as = fields.Constant(None)
    effect = fields.Constant(None)
    corrects = fields.Constant(None)
    reason = fields.Constant(None)


_body, _record = PaymentBody(), PaymentRecord()


@app.post("/api/transactions")
@by_key
def create_transaction() -> Response:
    """Record a disbursement and reserve its amount."""
    try:
        body = _body.load(request.get_json())
    except ValidationError as error:
        name = next(iter(error.messages_dict))
        abort(refusal(400, "INVALID_REQUEST", f"{name}: {error.messages_dict[name][0]}"))
    digest = hashlib.sha256(request.get_data()).hexdigest()
    transaction = _find(body["reference"])
    if transaction is None:
        try:
            transaction = _record_payment(body, digest)
        except IntegrityError:
            transaction = _find(body["reference"])
        else:
            return _answer(transaction, 201, "Transaction accepted")
    if transaction.request_digest != digest:
        abort(refusal(400, "IDEMPOTENCY_KEY_REUSED", "The reference was used for a different request"))
    return _answer(transaction, 200, "Transaction already recorded")


def _find(reference: str) -> Transaction | None:
    return Transaction.get_or_none(Transaction.client == g.client, Transaction.reference == reference)


def _record_payment(body: dict[str, Any], digest: str) -> Transaction:
    amount_cents = int(body["amount"] * 100)
    fee = Fee.get_or_none(Fee.client == g.client, Fee.type == body["type"])
    fee_cents = 0 if fee is None else fee.fixed_cents
    with database.atomic():
        provider, _ = Account.get_or_create(client=g.client, name=f"provider:{body['provider']}")
        account = Account.select().where(Account.client == g.client, Account.name == "main").for_update().get()
        if account.balance_cents - account.reserved_cents < amount_cents + fee_cents:
            abort(refusal(400, "INSUFFICIENT_BALANCE", "Insufficient balance to complete the transaction"))
        row = Transaction.create(
            client=g.client,
            type=body["type"],
            status="created",
            phone_number=body["phone_number"],
            amount_cents=amount_cents,
            fee_cents=fee_cents,
            account="main",
            provider=body["provider"],
            reference=body["reference"],
            request_digest=digest,
            description=body.get("description"),
            metadata=body.get("metadata"),
        )
        Transfer.create(
            transaction=row, kind="hold", debit_account=account, credit_account=provider, amount_cents=amount_cents
        )
        Account.update(reserved_cents=Account.reserved_cents + amount_cents).where(Account.id == account.id).execute()
        TransactionEvent.create(transaction=row, sequence=1, status=row.status, source="submit")
        Event.create(client=g.client, type="transaction.created", object_id=row.id, payload=_record.dump(row))
    return row


def _answer(row: Transaction, status: int, message: str) -> Response:
    response = success(_record.dump(row), message)
    response.status_code = status
    response.headers["Location"] = f"/api/transactions/{row.id}"
    return response
