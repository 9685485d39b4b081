"""API keys as pages show them, without their secrets, and what would happen to a call with one now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from ussd_server.context import APPROVE, RequestContext
from ussd_server.database.unit_of_work import for_update
from ussd_server.models.clients import AuditEvent, Client, User
from ussd_server.models.events import Event
from ussd_server.models.keys import ApiKey, DeletedApiKey, KeySpending
from ussd_server.runtime import Runtime, Service
from ussd_server.security.credentials import may_be_apikey
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.key_cache import KeyCache
from ussd_server.services.clients.keys.messages import ApiKeySummary, CallWindow, KeyAnswer, KeyExplanation, approves
from ussd_server.services.pages import of_period
from ussd_server.services.people import people_behind
from ussd_server.services.request_log.requests import RequestLogService
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, iso_milliseconds, kampala_day

_SOON = timedelta(days=7)
_MAY_NOT = "Insufficient permissions"


class ApiKeyReader(Service):
    """Shows a client's keys to people who may see them, and secrets to people who may list them."""

    def __init__(self, runtime: Runtime, requests: RequestLogService) -> None:
        super().__init__(runtime)
        self._requests = requests

    def list(self, context: RequestContext) -> tuple[ApiKeySummary, ...]:
        """All keys of the client (50 at most), newest first."""
        context.require("api_keys:list", _MAY_NOT)
        rows = list(ApiKey.select().where(ApiKey.client_id == context.client_id).order_by(ApiKey.id.desc()))
        return self._summaries(rows)

    def expiring(self, context: RequestContext) -> tuple[ApiKeySummary, ...]:
        """The keys of the client that expire within 7 days, first the first; none for callers who may not list keys."""
        if not context.may("api_keys:list"):
            return ()
        now = self._clock.now()
        rows = ApiKey.select().where(
            ApiKey.client_id == context.client_id,
            ApiKey.is_active,
            ApiKey.expires_at > now,
            ApiKey.expires_at <= now + _SOON,
        )
        found = list(rows.order_by(ApiKey.expires_at))
        return self._summaries(found) if found else ()

    def show(self, api_key_id: str, context: RequestContext) -> ApiKeySummary:
        """One key. NOT_FOUND for a key that is not the client's."""
        context.require("api_keys:list", _MAY_NOT)
        return self._summaries([self._find(api_key_id, context)])[0]

    def find_any(self, id_or_apikey: str, context: RequestContext) -> ApiKeySummary:
        """One key of any client, for the operator. NOT_FOUND for an unknown one."""
        context.require_operator()
        column = ApiKey.id if is_id(id_or_apikey) else ApiKey.apikey
        row = ApiKey.get_or_none(column == id_or_apikey)
        if row is None:
            raise ServiceError(Code.NOT_FOUND, "API Key not found")
        return self._summaries([row])[0]

    def calls(self, api_key_id: str, context: RequestContext) -> tuple[CallWindow, ...]:
        """The key's calls of the last minute and hour. NOT_FOUND for a key that is not the client's."""
        context.require("api_keys:list", _MAY_NOT)
        decision = self._limiter.peek("api-key", self._find(api_key_id, context).id)
        return tuple(
            CallWindow(window.name, window.limit, window.limit - window.remaining) for window in decision.windows
        )

    def reveal(self, api_key_id: str, context: RequestContext) -> str:
        """The secret of a key, noted in the audit trail; its reader counts as a person behind the key.

        NOT_FOUND for a key that is not the client's.
        INSUFFICIENT_SCOPE for a key that may approve payouts where the caller may not.
        """
        context.require("api_keys:list", _MAY_NOT)
        row = self._find(api_key_id, context)
        if approves(row.scopes):
            context.require(APPROVE, _MAY_NOT)
        while unread := unread_keys([(row.id, row.people or ())], context):
            add_reader(unread, context, self._key_cache)
            row = self._find(api_key_id, context)
        write_audit_event("api_key.revealed", context, self._clock.now(), client_id=context.client_id, object_id=row.id)
        return self._vault.decrypt(row.secret_sealed, row.client_id, row.id)

    def _find(self, api_key_id: str, context: RequestContext) -> ApiKey:
        row: ApiKey | None = None
        if is_id(api_key_id):
            row = ApiKey.get_or_none(ApiKey.id == api_key_id, ApiKey.client_id == context.client_id)
        if row is None:
            raise ServiceError(Code.NOT_FOUND, "API Key not found")
        return row

    def _summaries(self, rows: Sequence[ApiKey]) -> tuple[ApiKeySummary, ...]:
        ids = [row.id for row in rows]
        last_hits, accepted = self._limiter.last_hits("api-key", ids), self._requests.last_accepted(ids)
        people = User.select(User.id, User.email).where(User.id.in_({row.created_by for row in rows if row.created_by}))
        makers = {person.id: person.email for person in people}
        now = self._clock.now()
        today = KeySpending.select().where(KeySpending.key_id.in_(ids), KeySpending.day == kampala_day(now))
        paid = {each.key_id: each.spent_cents for each in today}
        return tuple(
            _summary(
                row,
                hit,
                makers.get(row.created_by or ""),
                accepted.get(row.id),
                paid.get(row.id, 0),
                now,
            )
            for row, hit in zip(rows, last_hits, strict=True)
        )


def _summary(
    row: ApiKey,
    last_hit: datetime | None,
    maker: str | None,
    accepted: tuple[datetime, str] | None,
    paid_today_cents: int,
    now: datetime,
) -> ApiKeySummary:
    noted = (row.last_used_at, row.last_used_address) if row.last_used_at else None
    last = max((each for each in (noted, accepted) if each), key=lambda each: each[0], default=None)
    grace_ends = row.previous_secret_expires_at
    return ApiKeySummary(
        id=row.id,
        client_id=row.client_id,
        apikey=row.apikey,
        scopes=row.scopes,
        is_active=bool(row.is_active),
        is_expired=row.expires_at is not None and row.expires_at <= now,
        created_at=row.created_at,
        updated_at=row.updated_at,
        expires_at=row.expires_at,
        # The limiter counts refused calls too, so its time is shown only while no accepted call is known.
        last_used_at=last[0] if last else last_hit,
        previous_secret_expires_at=grace_ends if grace_ends and grace_ends > now else None,
        name=row.name,
        created_by=maker,
        allowed_addresses=tuple(row.allowed_addresses.split()) if row.allowed_addresses else None,
        daily_limit_cents=row.daily_limit_cents,
        last_used_address=last and last[1],
        paid_today_cents=paid_today_cents,
    )


_AUDIT_PRECISION = timedelta(milliseconds=1)


class KeyExplanationService(Service):
    """Explains to the operator what happens to calls with a key. Counts no call."""

    def explain(self, id_or_apikey: str, context: RequestContext) -> KeyExplanation:
        """What would happen to a call with this key and its right secret now."""
        context.require_operator()
        column = ApiKey.id if is_id(id_or_apikey) else ApiKey.apikey
        row = ApiKey.get_or_none(column == id_or_apikey)
        if row is not None:
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
                client=_name_of(client_id),
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
            full = " and ".join(f"{each.limit} calls a {each.name}" for each in decision.windows if not each.remaining)
            sentence = f"The key has used its limit of {full}. A call gets 429 until {iso_milliseconds(until)}."
            return KeyExplanation(KeyAnswer.OVER_LIMIT, sentence, until=until, client=client.name)
        left = " and ".join(f"{each.remaining} calls this {each.name}" for each in decision.windows)
        if decision.fallback:
            left = "an unknown number of calls, because Redis is away"
        scopes = row.scopes or "everything"
        sentence = f"A call with this key and its secret is accepted. Its scopes: {scopes}. Left: {left}."
        return KeyExplanation(KeyAnswer.ACCEPTED, sentence, until=row.expires_at, client=client.name)


def _deletion_of(id_or_apikey: str) -> tuple[str, str, datetime] | None:
    """Id, client and time of a key that was deleted."""
    if is_id(id_or_apikey):
        event = Event.get_or_none(Event.object_id == id_or_apikey, Event.type == "api_key.deleted")
        return None if event is None else (id_or_apikey, event.client_id, event.created_at)
    row = DeletedApiKey.get_or_none(DeletedApiKey.apikey == id_or_apikey)
    return None if row is None else (row.id, row.client_id, row.deleted_at)


def _actor(action: str, client_id: str, object_id: str, at: datetime) -> str | None:
    """Who did this at that moment, None when the audit trail does not show it."""
    rows = (
        AuditEvent.select(AuditEvent, User.email)
        .left_outer_join(User, on=(User.id == AuditEvent.user_id), attr="user")
        .where(AuditEvent.client_id == client_id)
    )
    for event in of_period(rows, AuditEvent, at, at + _AUDIT_PRECISION):
        if (event.action, event.object_id) == (action, object_id):
            return str(event.user.email) if event.user_id else str(event.actor)
    return None


def _name_of(client_id: str) -> str:
    return str(Client.get_by_id(client_id).name)


def unread_keys(keys: Iterable[tuple[str, Iterable[str]]], context: RequestContext) -> list[str]:
    """The ids of the keys that have yet to count the caller as a person behind them; none for the operator.

    `keys` are ids and people. Scopes do not matter, because they can change.
    """
    person = context.caller.user_id
    unread = [] if person is None else [key_id for key_id, people in keys if person not in people]
    return unread if unread and Client.get_by_id(context.client_id).counts_readers else []


def add_reader(key_ids: Sequence[str], context: RequestContext, key_cache: KeyCache) -> None:
    """Count the caller as a person behind these keys, in every process from the return on.

    Read the secrets afterwards and look again: a rotation in between replaces secret and people.
    """
    client_id, person = context.client_id, context.caller.user_id
    assert client_id is not None
    assert person is not None
    readers = people_behind(client_id, [person])
    with key_cache.invalidate(client_id):
        keys = ApiKey.select(ApiKey.id, ApiKey.people).where(ApiKey.id.in_(key_ids), ApiKey.client_id == client_id)
        for key in for_update(keys.order_by(ApiKey.id)):
            ApiKey.update(people=readers.union(key.people or ())).where(ApiKey.id == key.id).execute()
