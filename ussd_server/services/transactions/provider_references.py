"""Names of payments at providers, derived from the names that clients and gateways gave.

A request that is repeated after the database lost its commit reaches the provider under the same name as before, and
the provider refuses it as a duplicate.
"""

from __future__ import annotations

import hmac
import json
import uuid
from collections.abc import Sequence
from itertools import count

from ussd_server.logs import logger
from ussd_server.models.operations import ReferenceKey
from ussd_server.models.transactions import Transaction
from ussd_server.security.key_ring import Keyring
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.status import Code, ServiceError

log = logger(__name__)

WRONG_REFERENCE_KEY = (
    "The reference key is not the one that the payments of this database were made with; "
    "put back the secrets file that belongs to this database"
)
_NUMBERS_AT_ONCE = 50


class ProviderReferences:
    """Derives names under the reference key. Providers keep them for ever, so the derivation never changes."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._is_verified = False

    def of_reference(self, client_id: str, kind: TransactionType, reference: str) -> str:
        """The name of a client's payment, refund or row of a payout: its `reference` is unique for the client."""
        return self._derived(client_id, kind, "reference", reference)

    def of_place(self, client_id: str, kind: TransactionType, place: Sequence[str], number: int) -> str:
        """The name of a payment by USSD: `number` counts the payments of one place (`CreateTransaction.place`)."""
        return self._derived(client_id, kind, "place", *place, str(number))

    def next_number(self, client_id: str, kind: TransactionType, place: Sequence[str]) -> int:
        """The first number of a place that no transaction has. Costs one query for every 50 payments there."""
        for first in count(1, _NUMBERS_AT_ONCE):
            numbers = {
                self.of_place(client_id, kind, place, number): number
                for number in range(first, first + _NUMBERS_AT_ONCE)
            }
            used = Transaction.select(Transaction.provider_reference).where(
                Transaction.provider_reference.in_(list(numbers))
            )
            free = numbers.keys() - {row.provider_reference for row in used}
            if free:
                return min(numbers[each] for each in free)
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
