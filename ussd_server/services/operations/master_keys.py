"""Rotation of the master keys, and of every secret that is stored under them."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import partial
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.clients import UserFactor
from ussd_server.models.keys import ApiKey
from ussd_server.models.operations import HistoryDigest, RowSignature
from ussd_server.models.operators import Operator
from ussd_server.models.payouts import Approval, ApprovalRules, Payout
from ussd_server.models.sending import Webhook
from ussd_server.models.statements import DayProof
from ussd_server.models.ussd import Channel, SmppLink, SubscriberPin
from ussd_server.services.operations.book_check.history_digests import HistoryDigests
from ussd_server.services.payouts.approval.digests import OF_GIVEN, OF_RULES, PayoutDigests
from ussd_server.services.reconciliation.days.proofs import DayProofs
from ussd_server.services.runtime import Runtime
from ussd_server.services.signatures import SignatureService
from ussd_server.status import Code, ServiceError
from ussd_server.wire import columns_of

Renew = Callable[[Any], dict[str, Any]]
"""Returns the columns of a row's secrets or digests under the newest keys."""


class MasterKeyService:
    """Rotates the keys that encrypt, authenticate and sign, while requests run."""

    def __init__(self, runtime: Runtime, history: HistoryDigests, signatures: SignatureService) -> None:
        self._vault, self._keyring = runtime.vault, runtime.keyring
        payouts, days = PayoutDigests(runtime.vault), DayProofs(runtime.vault)
        digests: tuple[tuple[Any, Renew], ...] = (
            (Payout, payouts.renewed),
            (Approval, partial(payouts.renewed_of, OF_GIVEN)),
            (ApprovalRules, partial(payouts.renewed_of, OF_RULES)),
            (HistoryDigest, history.renewed),
            (RowSignature, signatures.renewed),
            (DayProof, days.renewed),
        )
        # Every table with secrets or digests, what renews those of a row, and what says whether they are the newest.
        self._tables: tuple[tuple[Any, Renew, Callable[[Any], bool]], ...] = (
            (ApiKey, self._rekeyed, self._is_current),
            (Channel, self._rekeyed_channel, self._is_current_channel),
            (SmppLink, self._encrypted_again, self._are_current),
            (Webhook, self._encrypted_again, self._are_current),
            (Operator, self._encrypted_again, self._are_current),
            (UserFactor, self._encrypted_again, self._are_current),
            (SubscriberPin, self._encrypted_again, self._are_current),
            *((table, renewed, partial(_needs_no_renewal, renewed)) for table, renewed in digests),
        )

    def add(self, context: RequestContext) -> None:
        """Add a key to every ring. New secrets use it; older keys still decrypt what they encrypted."""
        context.require_operator()
        self._keyring.add_keys()

    def rekey(self, context: RequestContext, batch: int = 100) -> int:
        """Encrypt every stored secret under the newest keys, `batch` rows in a transaction; return the number of rows.

        Requests continue during the rotation, because both the old and the new key are in the ring.
        """
        context.require_operator()
        return sum(_in_batches(table, batch, renewed) for table, renewed, _ in self._tables)

    def retire(self, context: RequestContext) -> None:
        """Drop all keys but the newest. Raises INVALID_REQUEST while a stored secret still needs an older one.

        Access tokens, refresh tokens and page cursors that an older key signed become invalid.
        """
        context.require_operator()
        # Read the ring before the secrets are checked, because a key may be added during the check.
        newest = self._keyring.newest_ids()
        if not all(is_current(row) for table, _, is_current in self._tables for row in table.select()):
            raise ServiceError(
                Code.INVALID_REQUEST, "Some secrets still need an older key; run `ussd-server secrets rekey` first"
            )
        self._keyring.drop_keys_before(newest)

    def _rekeyed(self, row: ApiKey) -> dict[str, Any]:
        secret = self._vault.decrypt(row.secret_sealed, row.client_id, row.id)
        previous = row.previous_secret_sealed
        previous_secret = None if previous is None else self._vault.decrypt(previous, row.client_id, row.id)
        return self._vault.keep(secret, previous_secret, row.client_id, row.id)

    def _rekeyed_channel(self, row: Channel) -> dict[str, Any]:
        secret = self._vault.decrypt(row.secret_sealed, row.client_id or "", row.id)
        return {**self._encrypted_again(row), "secret_digest": self._vault.path_digests(secret)[-1]}

    def _encrypted_again(self, row: Any) -> dict[str, Any]:
        """The encrypted columns of a row, under the newest key. They are bound to its client, if it has one."""
        bound_to = (columns_of(row).get("client_id") or "", row.id)
        return {
            name: self._vault.encrypt(self._vault.decrypt(encrypted, *bound_to), *bound_to)
            for name, encrypted in _encrypted(row)
        }

    def _is_current(self, row: ApiKey) -> bool:
        return self._vault.is_current(row.secret_sealed, row.digest_key_id)

    def _is_current_channel(self, row: Channel) -> bool:
        secret = self._vault.decrypt(row.secret_sealed, row.client_id or "", row.id)
        digest = self._vault.path_digests(secret)[-1]
        return self._are_current(row) and hmac.compare_digest(digest, row.secret_digest)

    def _are_current(self, row: Any) -> bool:
        return all(self._vault.is_current(encrypted) for _, encrypted in _encrypted(row))


def _needs_no_renewal(renewed: Renew, row: Any) -> bool:
    """Whether the newest key made the digests of a row. A wrong digest stays wrong, so it needs no older key."""
    return all(getattr(row, name) == digest for name, digest in renewed(row).items())


def _encrypted(row: Any) -> list[tuple[str, bytes]]:
    """The names and values of the encrypted columns of a row, without nulls."""
    return [(name, value) for name, value in columns_of(row).items() if name.endswith("_sealed") and value is not None]


def _in_batches(table: Any, batch: int, rekeyed: Renew) -> int:
    """Update every row of `table`, oldest first. Rows inserted during the update use the newest keys already."""
    count, last = 0, None
    while True:
        chosen = table.select().order_by(table.id).limit(batch)
        with unit_of_work():
            rows = list(for_update(chosen if last is None else chosen.where(table.id > last)))
            for row in rows:
                table.update(**rekeyed(row)).where(table.id == row.id).execute()
        if not rows:
            return count
        count, last = count + len(rows), rows[-1].id
