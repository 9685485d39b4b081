"""The names of payments: those of requests, each of which creates one transaction, and those at providers."""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import count
from typing import Any

from peewee import IntegrityError, Query

from ussd_server.database.tables import CompiledQuery, param
from ussd_server.logs import Logger
from ussd_server.models.operations import ReferenceKey
from ussd_server.models.transactions import IdempotencyKey, Transaction
from ussd_server.security.key_ring import Keyring
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.status import Code, ServiceError

log = Logger(__name__)

OPERATOR_REFUND = "operator-refund-"
"""Begins the references of refunds by operators."""

SETTLEMENT = "bank/"
"""Begins the references of settlements to the bank; what follows is the bank's own reference."""

INCOMING = "in/"
"""Begins the references of payments that payers made by themselves; what follows is the provider's receipt."""

RECOVERED = "recovered"
"""The digest of a transaction that operators booked after its commit was lost: what its request said is not known."""

_OPERATORS = (OPERATOR_REFUND, SETTLEMENT, INCOMING)

WRONG_REFERENCE_KEY = (
    "The reference key is not the one that the payments of this database were made with; "
    "put back the secrets file that belongs to this database"
)
_NUMBERS_AT_ONCE = 50

# Digests are kept for ever, so this form never changes.
_DIGESTED = json.JSONEncoder(sort_keys=True, default=str).encode


@dataclass(frozen=True, slots=True)
class RequestIdentity:
    """The names of a request, and the digest of its content. A repeat has one of the names and the same digest.

    `place` is that of `CreateTransaction`; `place_number` counts the payments that were created there. `content` are
    those of its fields that are columns too: a refusal names the ones that differ. Deposits have references of their
    own: the operator and a client may use the same one.
    """

    client_id: str
    type: TransactionType
    digest: str
    reference: str
    idempotency_key: str | None = None
    session_id: str | None = None
    confirmation: str | None = None
    place: Sequence[str] | None = None
    place_number: int = 1
    content: Mapping[str, object] = field(default_factory=dict)


def digest_of(content: dict[str, object]) -> str:
    """Distinguishes a repeat from another request under the same name."""
    return hashlib.sha256(_DIGESTED(content).encode()).hexdigest()


def refuse_operators_name(reference: str) -> None:
    """Raise INVALID_REQUEST for a client's reference that a transaction of the operators could get later."""
    for prefix in _OPERATORS:
        if reference.startswith(prefix):
            raise ServiceError(Code.INVALID_REQUEST, f"reference: Names that begin with {prefix} are the operators'.")


def find_repeated(identity: RequestIdentity, now: datetime) -> Transaction | None:
    """The transaction that was created before under one of the names; binds the request's idempotency key to it.

    Raises IDEMPOTENCY_KEY_REUSED when a name was used for something else.
    """
    key = identity.idempotency_key
    bound: IdempotencyKey | None = None
    if key is not None:
        bound = _BOUND.first(IdempotencyKey, client_id=identity.client_id, key=key)
    found = (_NAMED_DEPOSIT if identity.type is TransactionType.DEPOSIT else _NAMED).rows(
        Transaction,
        client_id=identity.client_id,
        reference=identity.reference,
        idempotency_key=key,
        session_id=identity.session_id,
        confirmation=identity.confirmation,
        bound_id=bound and bound.transaction_id,
    )
    if not found:
        return None
    if len(found) > 1 or not _is_same_request(found[0], identity):
        raise ServiceError(Code.IDEMPOTENCY_KEY_REUSED, _why_refused(found, identity))
    row: Transaction = found[0]
    if key is not None and bound is None and row.idempotency_key != key:
        try:
            IdempotencyKey.insert(
                client_id=identity.client_id, key=key, transaction_id=row.id, created_at=now
            ).execute()
        except IntegrityError:
            # Another call has bound the key since the look-up, to this transaction or to another one.
            return find_repeated(identity, now)
    return row


def _is_same_request(row: Transaction, identity: RequestIdentity) -> bool:
    if row.request_digest != RECOVERED:
        return bool(row.request_digest == identity.digest)
    known = {name: identity.content.get(name) for name in ("amount_cents", "phone_number")}
    return row.type == identity.type and all(getattr(row, name) == value for name, value in known.items())


def _why_refused(found: Sequence[Transaction], identity: RequestIdentity) -> str:
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


class ProviderReferences:
    """Derives the names of payments at providers, under the reference key, from those that clients and gateways gave.

    A request that is repeated after the database lost its commit reaches the provider under the same name as before,
    and the provider refuses it as a duplicate. Providers keep the names for ever, so the derivation never changes.
    """

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._is_verified = False

    def of_request(self, identity: RequestIdentity) -> str:
        """The name of a request's payment: by USSD that of its place, otherwise that of its reference."""
        if identity.place is None:
            return self.of_reference(identity.client_id, identity.type, identity.reference)
        return self.of_place(identity.client_id, identity.type, identity.place, identity.place_number)

    def of_reference(self, client_id: str, kind: TransactionType, reference: str) -> str:
        """The name of a client's payment, refund or row of a payout: its `reference` is unique for the client."""
        return self._derived(client_id, kind, "reference", reference)

    def of_place(self, client_id: str, kind: TransactionType, place: Sequence[str], number: int) -> str:
        """The name of a payment by USSD: `number` counts the payments of one place (`CreateTransaction.place`)."""
        return self._derived(client_id, kind, "place", *place, str(number))

    def next_at_place(self, identity: RequestIdentity) -> RequestIdentity:
        """The request with the first number of its place that no transaction has; unchanged when it has no place.

        Costs one query for every 50 payments there.
        """
        if identity.place is None:
            return identity
        for first in count(1, _NUMBERS_AT_ONCE):
            numbers = {
                self.of_place(identity.client_id, identity.type, identity.place, number): number
                for number in range(first, first + _NUMBERS_AT_ONCE)
            }
            used = Transaction.select(Transaction.provider_reference).where(
                Transaction.provider_reference.in_(list(numbers))
            )
            free = numbers.keys() - {row.provider_reference for row in used}
            if free:
                return replace(identity, place_number=min(numbers[each] for each in free))
        raise AssertionError("numbers do not end")

    def verify(self) -> None:
        """Raise SERVICE_UNAVAILABLE unless the key is the one that this database's payments were made with.

        The first key that is used with a database becomes its key.
        """
        if self._is_verified:
            return
        mine = check_value(self._keyring)
        if (kept := kept_check_value()) is None:
            ReferenceKey.insert(id=1, check_value=mine).on_conflict_ignore().execute()
            kept = kept_check_value()
        if kept != mine:
            log.error("the reference key is not that of this database: no payment is created")
            raise ServiceError(Code.SERVICE_UNAVAILABLE, WRONG_REFERENCE_KEY, retry_after_seconds=60)
        self._is_verified = True

    def _derived(self, client_id: str, kind: TransactionType, *name: str) -> str:
        """An HMAC written as a UUID of version 4, which is what MTN takes."""
        self.verify()
        content = json.dumps(["provider-reference", client_id, str(kind), *name])
        digest = hmac.digest(self._keyring.reference_key, content.encode(), "sha256")
        return str(uuid.UUID(bytes=digest[:16], version=4))


def check_value(keyring: Keyring) -> str:
    """A value that identifies the reference key without revealing it."""
    return hmac.digest(keyring.reference_key, b"check-value", "sha256").hex()[:16]


def kept_check_value() -> str | None:
    """The check value of the key that this database's payments were made with; None before the first one."""
    row = ReferenceKey.get_or_none()
    return None if row is None else str(row.check_value)
