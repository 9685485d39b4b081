"""The names of a request for a transaction, and the transactions that were created under them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from peewee import Query

from ussd_server.database.compiled_queries import CompiledQuery, param
from ussd_server.models.transactions import IdempotencyKey, Transaction
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.status import Code, ServiceError

OPERATOR_REFUND = "operator-refund-"
"""Begins the references of refunds by operators."""

# Digests are kept for ever, so this form never changes.
_DIGESTED = json.JSONEncoder(sort_keys=True, default=str).encode


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """The names of a request, and the digest of its content. A repeat has one of the names and the same digest.

    `content` are those of its fields that are columns too: a refusal names the ones that differ. Deposits have
    references of their own: the operator and a client may use the same one.
    """

    client_id: str
    digest: str
    reference: str
    idempotency_key: str | None = None
    session_id: str | None = None
    confirmation: str | None = None
    is_deposit: bool = False
    content: Mapping[str, object] = field(default_factory=dict)


def digest_of(content: dict[str, object]) -> str:
    """Distinguishes a repeat from another request under the same name."""
    return hashlib.sha256(_DIGESTED(content).encode()).hexdigest()


def refuse_operators_name(reference: str) -> None:
    """Raise INVALID_REQUEST for a client's reference that a refund by operators could get later."""
    if reference.startswith(OPERATOR_REFUND):
        raise ServiceError(
            Code.INVALID_REQUEST, f"reference: Names that begin with {OPERATOR_REFUND} are the operators'."
        )


def bound_key(identity: RequestIdentity) -> IdempotencyKey | None:
    """What the idempotency key of a request names already."""
    if identity.idempotency_key is None:
        return None
    found: IdempotencyKey | None = _BOUND.first(
        IdempotencyKey, client_id=identity.client_id, key=identity.idempotency_key
    )
    return found


def find_twins(identity: RequestIdentity, bound: IdempotencyKey | None) -> list[Transaction]:
    """The transactions under any name of a request; `bound` is the row of its idempotency key."""
    return (_NAMED_DEPOSIT if identity.is_deposit else _NAMED).rows(
        Transaction, client_id=identity.client_id, reference=identity.reference,
        idempotency_key=identity.idempotency_key, session_id=identity.session_id,
        confirmation=identity.confirmation, bound_id=bound and bound.transaction_id,
    )  # fmt: skip


def why_refused(found: Sequence[Transaction], identity: RequestIdentity) -> str:
    """Why a name was refused: the transactions that have it, and the fields in which the only one differs."""
    message = "The reference or idempotency key was used for a different request"
    if len(found) > 1:
        return f"{message}: of the transactions {' and '.join(row.id for row in found)}"
    (row,) = found
    given = {**identity.content, "reference": identity.reference}
    differing = [name.removesuffix("_cents") for name, value in given.items() if getattr(row, name) != value]
    named = f", with another {', '.join(sorted(differing))}" if differing else ""
    return f"{message}: of transaction {row.id}{named}"


def _named(kind: Any) -> Query:
    """Transactions under any of a client's names; a name that is null matches none."""
    return Transaction.select().where(
        Transaction.client_id == param(Transaction.client_id),
        ((Transaction.reference == param(Transaction.reference)) & kind)
        | (Transaction.idempotency_key == param(Transaction.idempotency_key))
        | (Transaction.id == param(Transaction.id, "bound_id"))
        | (
            (Transaction.session_id == param(Transaction.session_id))
            & (Transaction.confirmation == param(Transaction.confirmation))
        ),
    )


_BOUND = CompiledQuery(
    lambda: IdempotencyKey.select().where(
        IdempotencyKey.client_id == param(IdempotencyKey.client_id), IdempotencyKey.key == param(IdempotencyKey.key)
    )
)
_NAMED = CompiledQuery(lambda: _named(Transaction.type != TransactionType.DEPOSIT))
_NAMED_DEPOSIT = CompiledQuery(lambda: _named(Transaction.type == TransactionType.DEPOSIT))
