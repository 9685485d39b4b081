"""Explains whether a call with an API key would be accepted now."""

from __future__ import annotations

from datetime import datetime, timedelta

from ussd_server.context import RequestContext
from ussd_server.models.clients import Client
from ussd_server.models.keys import ApiKey, DeletedApiKey
from ussd_server.models.sending import Event
from ussd_server.security.credentials import may_be_apikey
from ussd_server.services.audit.trail import action_at
from ussd_server.services.clients.keys.messages import KeyAnswer, KeyExplanation
from ussd_server.services.runtime import Runtime
from ussd_server.values import is_id, iso_milliseconds


class KeyExplanationService:
    """Explains to the operator what would happen to a call with a key now. Counts no call."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._limiter = runtime.clock, runtime.limiter

    def explain(self, id_or_apikey: str, context: RequestContext) -> KeyExplanation:
        """Explains whether a call with this key and its right secret would be accepted now."""
        context.require_operator()
        column = ApiKey.id if is_id(id_or_apikey) else ApiKey.apikey
        if row := ApiKey.get_or_none(column == id_or_apikey):
            return self._explain(row)
        deleted = _deletion_of(id_or_apikey)
        if deleted is not None:
            key_id, client_id, deleted_at = deleted
            by = _actor("api_key.deleted", client_id, key_id, deleted_at)
            who = f" by {by}" if by else ""
            return KeyExplanation(
                KeyAnswer.DELETED,
                f"The key was deleted{who} at {iso_milliseconds(deleted_at)}. It is refused with 401, for ever.",
                since=deleted_at,
                by=by,
                client=Client.get_by_id(client_id).name,
            )
        if not is_id(id_or_apikey) and not may_be_apikey(id_or_apikey):
            sentence = (
                "The key is mistyped: its checksum is wrong, or it is not 8 to 64 letters and digits. It gets 401."
            )
            return KeyExplanation(KeyAnswer.MISTYPED, sentence)
        return KeyExplanation(KeyAnswer.UNKNOWN, "No client has ever had this key here. It is refused with 401.")

    def _explain(self, row: ApiKey) -> KeyExplanation:
        client, now = Client.get_by_id(row.client_id), self._clock.now()
        if not client.is_active:
            since = client.updated_at
            by = _actor("client.disabled", client.id, client.id, since)
            sentence = f"The client {client.name} is disabled, and all its keys with it. A call gets 403."
            return KeyExplanation(KeyAnswer.CLIENT_DISABLED, sentence, since=since, by=by, client=client.name)
        if not row.is_active:
            since = row.updated_at
            by = _actor("api_key.disabled", client.id, row.id, since)
            sentence = f"The key is disabled. A call gets 403 until: ussd-server keys enable {row.id}"
            return KeyExplanation(KeyAnswer.DISABLED, sentence, since=since, by=by, client=client.name)
        if row.expires_at is not None and row.expires_at <= now:
            sentence = f"The key expired at {iso_milliseconds(row.expires_at)}. A call gets 403."
            return KeyExplanation(KeyAnswer.EXPIRED, sentence, since=row.expires_at, client=client.name)
        decision = self._limiter.peek("api-key", row.id)
        if not decision.accepted:
            until = now + timedelta(seconds=decision.retry_after_seconds)
            used_up = " and ".join(
                f"{each.limit} calls a {each.name}" for each in decision.windows if not each.remaining
            )
            sentence = f"The key has used its limit of {used_up}. A call gets 429 until {iso_milliseconds(until)}."
            return KeyExplanation(KeyAnswer.OVER_LIMIT, sentence, until=until, client=client.name)
        remaining = {each.name: each.remaining for each in decision.windows}
        left = f"{remaining['minute']} calls this minute and {remaining['hour']} calls this hour"
        if decision.fallback:
            left = "an unknown number of calls, because Redis is away"
        scopes = row.scopes or "everything"
        sentence = f"A call with this key and its secret is accepted. Its scopes: {scopes}. Left: {left}."
        return KeyExplanation(KeyAnswer.ACCEPTED, sentence, until=row.expires_at, client=client.name)


def _deletion_of(id_or_apikey: str) -> tuple[str, str, datetime] | None:
    """Id, client id and time of a key that was deleted; None for any other."""
    if is_id(id_or_apikey):
        event = Event.get_or_none(Event.object_id == id_or_apikey, Event.type == "api_key.deleted")
        return None if event is None else (id_or_apikey, event.client_id, event.created_at)
    row = DeletedApiKey.get_or_none(DeletedApiKey.apikey == id_or_apikey)
    return None if row is None else (row.id, row.client_id, row.deleted_at)


def _actor(action: str, client_id: str, object_id: str, at: datetime) -> str | None:
    """Who did this at that moment, by e-mail address or as `operator`; None if the audit trail does not have it."""
    done = action_at(action, client_id, object_id, at)
    return done and (done.email or done.actor)
