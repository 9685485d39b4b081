"""The keys of the house: made anew by the operator, and every kept secret carried over to the newest."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.keys import ApiKey
from ussd_server.models.ussd import Channel
from ussd_server.models.webhooks import Webhook
from ussd_server.security.credentials import Vault
from ussd_server.security.key_ring import Keyring
from ussd_server.status import Code, ServiceError


class MasterKeyService:
    """Renews the keys under which secrets are sealed, digested and signed, while requests run."""

    def __init__(self, keyring: Keyring, vault: Vault) -> None:
        self._keyring = keyring
        self._vault = vault

    def add(self, context: RequestContext) -> None:
        """Add a key to every ring. It makes whatever is new from now on; the older ones still open what they made."""
        context.require_operator()
        self._keyring.add_keys()

    def rekey(self, context: RequestContext, batch: int = 100) -> int:
        """Seal and digest every kept secret under the newest keys, `batch` rows in a unit of work; give their number.

        Requests go on meanwhile: they meet a secret under its old key or its new one, and both are in the ring.
        """
        context.require_operator()
        return (
            _in_batches(ApiKey, batch, self._rekeyed)
            + _in_batches(Channel, batch, self._rekeyed_channel)
            + _in_batches(Webhook, batch, self._rekeyed_webhook)
        )

    def retire(self, context: RequestContext) -> None:
        """Drop all keys but the newest. INVALID_REQUEST while a kept secret still needs an older one.

        Access tokens, refresh tokens and page cursors that an older key signed end with it.
        """
        context.require_operator()
        # Taken first: a key that somebody adds meanwhile is not the one that the secrets were found under.
        newest = self._keyring.newest_ids()
        if not (
            all(map(self._is_current, ApiKey.select()))
            and all(map(self._is_current_channel, Channel.select()))
            and all(map(self._is_current_webhook, Webhook.select()))
        ):
            raise ServiceError(
                Code.INVALID_REQUEST, "Some secrets still need an older key; run `ussd-server secrets rekey` first"
            )
        self._keyring.drop_keys_before(newest)

    def _rekeyed(self, row: ApiKey) -> dict[str, Any]:
        secret = self._vault.open(row.secret_sealed, row.client_id, row.id)
        sealed = row.previous_secret_sealed
        previous_secret = None if sealed is None else self._vault.open(sealed, row.client_id, row.id)
        return self._vault.keep(secret, previous_secret, row.client_id, row.id)

    def _rekeyed_channel(self, row: Channel) -> dict[str, Any]:
        secret = self._vault.open(row.secret_sealed, row.client_id or "", row.id)
        return {
            "secret_sealed": self._vault.seal(secret, row.client_id or "", row.id),
            "secret_digest": self._vault.path_digests(secret)[-1],
        }

    def _rekeyed_webhook(self, row: Webhook) -> dict[str, Any]:
        def resealed(sealed: bytes) -> bytes:
            return self._vault.seal(self._vault.open(sealed, row.client_id, row.id), row.client_id, row.id)

        previous = row.previous_secret_sealed
        return {
            "secret_sealed": resealed(row.secret_sealed),
            "previous_secret_sealed": None if previous is None else resealed(previous),
        }

    def _is_current(self, row: ApiKey) -> bool:
        return self._vault.is_current(row.secret_sealed, row.digest_key_id)

    def _is_current_channel(self, row: Channel) -> bool:
        secret = self._vault.open(row.secret_sealed, row.client_id or "", row.id)
        digest = self._vault.path_digests(secret)[-1]
        return self._vault.is_current(row.secret_sealed) and hmac.compare_digest(digest, row.secret_digest)

    def _is_current_webhook(self, row: Webhook) -> bool:
        previous = row.previous_secret_sealed
        return self._vault.is_current(row.secret_sealed) and (previous is None or self._vault.is_current(previous))


def _in_batches(table: Any, batch: int, rekeyed: Callable[[Any], dict[str, Any]]) -> int:
    """Write every row of `table` anew, oldest first; rows made meanwhile are under the newest keys already."""
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
