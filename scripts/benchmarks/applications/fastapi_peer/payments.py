"""Payments, statement by statement."""

from __future__ import annotations

import hashlib
from decimal import Decimal
from typing import Annotated, Any, Literal

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from benchmarks.applications.both_peers import written
from benchmarks.applications.fastapi_peer.app import Database, Key, RefusedError, app, by_key, refuse, success
from benchmarks.applications.fastapi_peer.models import (
    Account,
    ApiKey,
    Event,
    Fee,
    Transaction,
    TransactionEvent,
    Transfer,
)


class PaymentBody(BaseModel):
    """The body of a request for a payment."""

    type: Literal["disbursement"]
    phone_number: Annotated[str, Field(pattern=r"^\+256[0-9]{9}$")]
    amount: Annotated[Decimal, Field(gt=0, lt=1_000_000, decimal_places=2)]
    reference: Annotated[str, Field(min_length=1, max_length=64)]
    provider: Literal["mtn", "airtel", "sandbox"]
    description: Annotated[str | None, Field(max_length=200)] = None
    metadata: dict[str, Any] | None = None


@app.exception_handler(RequestValidationError)
async def refuse_body(request: Request, error: RequestValidationError) -> Response:
    """Refuse a body by its first fault."""
    first = error.errors()[0]
    return await refuse(request, RefusedError(400, "INVALID_REQUEST", f"{first['loc'][-1]}: {first['msg']}"))


@app.post("/api/transactions", status_code=201)
@by_key
async def create_transaction(
    request: Request, response: Response, body: PaymentBody, key: Key, database: Database
) -> dict[str, Any]:
    """Record a disbursement and reserve its amount."""
    digest = hashlib.sha256(await request.body()).hexdigest()
    transaction = await _find(database, key, body.reference)
    if transaction is None:
        try:
            transaction = await _record_payment(database, key, body, digest)
        except IntegrityError:
            await database.rollback()
            transaction = await _find(database, key, body.reference)
        else:
            response.headers["Location"] = f"/api/transactions/{transaction.id}"
            return success(_record(transaction), "Transaction accepted")
    assert transaction is not None
    if transaction.request_digest != digest:
        raise RefusedError(400, "IDEMPOTENCY_KEY_REUSED", "The reference was used for a different request")
    response.status_code = 200
    return success(_record(transaction), "Transaction already recorded")


async def _find(database: AsyncSession, key: ApiKey, reference: str) -> Transaction | None:
    wanted = select(Transaction).where(Transaction.client_id == key.client_id, Transaction.reference == reference)
    transaction: Transaction | None = await database.scalar(wanted)
    return transaction


async def _record_payment(database: AsyncSession, key: ApiKey, body: PaymentBody, digest: str) -> Transaction:
    amount_cents = int(body.amount * 100)
    fee = await database.scalar(select(Fee).where(Fee.client_id == key.client_id, Fee.type == body.type))
    fee_cents = 0 if fee is None else fee.fixed_cents
    accounts = select(Account).where(Account.client_id == key.client_id)
    provider = await database.scalar(accounts.where(Account.name == f"provider:{body.provider}"))
    if provider is None:
        provider = Account(client_id=key.client_id, name=f"provider:{body.provider}")
        database.add(provider)
        await database.flush()
    account = await database.scalar(accounts.where(Account.name == "main").with_for_update())
    assert account is not None
    if account.balance_cents - account.reserved_cents < amount_cents + fee_cents:
        raise RefusedError(400, "INSUFFICIENT_BALANCE", "Insufficient balance to complete the transaction")
    row = Transaction(
        client_id=key.client_id,
        type=body.type,
        status="created",
        phone_number=body.phone_number,
        amount_cents=amount_cents,
        fee_cents=fee_cents,
        account="main",
        provider=body.provider,
        reference=body.reference,
        request_digest=digest,
        description=body.description,
        metadata_=body.metadata,
    )
    database.add(row)
    account.reserved_cents += amount_cents
    await database.flush()
    database.add_all(
        [
            Transfer(
                transaction_id=row.id,
                kind="hold",
                debit_account_id=account.id,
                credit_account_id=provider.id,
                amount_cents=amount_cents,
            ),
            TransactionEvent(transaction_id=row.id, sequence=1, status=row.status, source="submit"),
            Event(client_id=key.client_id, type="transaction.created", object_id=row.id, payload=_record(row)),
        ]
    )
    await database.commit()
    return row


def _record(row: Transaction) -> dict[str, Any]:
    """Return a payment as clients see it."""
    return {
        "transaction_id": str(row.id),
        "reference": row.reference,
        "type": row.type,
        "phone_number": row.phone_number,
        "to_phone_number": None,
        "amount": row.amount_cents // 100,
        "fee": row.fee_cents // 100,
        "currency": "UGX",
        "account": row.account,
        "provider": row.provider,
        "provider_reference": str(row.provider_reference),
        "provider_transaction_id": None,
        "status": row.status,
        "failure": None,
        "late": False,
        "session_id": None,
        "description": row.description,
        "metadata": row.metadata_,
        "created_at": written(row.created_at),
        "updated_at": written(row.updated_at),
        "completed_at": None,
        "refund_of": None,
        "refunded_amount": 0,
        "payout_id": None,
        "origin": "client",
        "next_check_at": written(row.due_at),
        "same_money_as": None,
        "effect": None,
        "corrects": None,
        "reason": None,
    }
