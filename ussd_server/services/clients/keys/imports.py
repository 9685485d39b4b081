"""Imports API keys that exist already, with their secrets."""

from __future__ import annotations

from datetime import datetime

from peewee import IntegrityError

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.keys import ApiKey, DeletedApiKey
from ussd_server.runtime import Service
from ussd_server.security.credentials import may_be_apikey, may_be_apisecret
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.keys.messages import ImportApiKey, ImportedApiKey
from ussd_server.services.clients.keys.values import insert_key, joined_scopes, lock_client
from ussd_server.status import Code, ServiceError


class ApiKeyImports(Service):
    """Imports keys, for the operator."""

    def import_key(self, request: ImportApiKey, context: RequestContext) -> ImportedApiKey:
        """Import a key with its secret. Importing it again with the same secret updates scopes and expiry only.

        INVALID_REQUEST for a malformed key, secret or scope, for a key that was deleted, that belongs to another client
        or has another secret here, and for a client with 50 keys. NOT_FOUND for an unknown client.
        """
        context.require_operator()
        if not may_be_apikey(request.apikey):
            raise ServiceError(
                Code.INVALID_REQUEST, "apikey: Must be 8 to 64 letters and digits; one made here has a checksum."
            )
        if not may_be_apisecret(request.apisecret):
            raise ServiceError(
                Code.INVALID_REQUEST, "apisecret: Must be 16 to 128 printable ASCII characters without spaces."
            )
        scopes = _imported_scopes(request.scopes)
        now = self._clock.now()
        if present := ApiKey.get_or_none(ApiKey.apikey == request.apikey):
            return self._reimport(present, request, scopes, context, now)
        try:
            with unit_of_work():
                lock_client(request.client_id)
                row = insert_key(
                    self._vault,
                    request.client_id,
                    request.apikey,
                    request.apisecret,
                    now,
                    people=frozenset(),
                    scopes=scopes,
                    expires_at=request.expires_at,
                )
                # Checked after the insert, because the insert waits for a deletion of the same key that is in progress.
                if DeletedApiKey.select().where(DeletedApiKey.apikey == request.apikey).exists():
                    raise ServiceError(Code.INVALID_REQUEST, "apikey: Was deleted and can never be used again.")
                write_audit_event("api_key.imported", context, now, client_id=row.client_id, object_id=row.id)
        except IntegrityError:
            raise ServiceError(Code.INVALID_REQUEST, "apikey: Another import of it is under way.") from None
        return ImportedApiKey(row.id, row.apikey, "created")

    def _reimport(
        self, row: ApiKey, request: ImportApiKey, scopes: str | None, context: RequestContext, now: datetime
    ) -> ImportedApiKey:
        if row.client_id != request.client_id:
            raise ServiceError(Code.INVALID_REQUEST, "apikey: Belongs to another client.")
        if not self._vault.matches(request.apisecret, row.id, row.secret_digest, row.digest_key_id):
            raise ServiceError(Code.INVALID_REQUEST, "apisecret: Is not the one this key has; rotate the key instead.")
        if (row.scopes, row.expires_at) == (scopes, request.expires_at):
            return ImportedApiKey(row.id, row.apikey, "unchanged")
        with self._key_cache.invalidate(row.client_id):
            ApiKey.update(scopes=scopes, expires_at=request.expires_at, updated_at=now).where(
                ApiKey.id == row.id
            ).execute()
            write_audit_event("api_key.updated", context, now, client_id=row.client_id, object_id=row.id)
        return ImportedApiKey(row.id, row.apikey, "updated")


def _imported_scopes(scopes: tuple[str, ...] | None) -> str | None:
    try:
        return None if scopes is None else joined_scopes(scopes)
    except ValueError as fault:
        named = f": {fault}" if fault.args else ""
        sentence = f"scopes: Must be resource:action, as the API document lists them{named}"
        raise ServiceError(Code.INVALID_REQUEST, sentence) from None
