"""Shows clients their requests, and how often each key called what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from peewee import fn

from ussd_server.context import NOT_PERMITTED, RequestContext
from ussd_server.models.clients import User
from ussd_server.models.keys import ApiKey, ApiRequest, KeyUsage
from ussd_server.services.pages import matching, page_of, require_row
from ussd_server.services.request_log.messages import (
    ErrorGroup,
    GetKeyUsage,
    KeyUsageView,
    ListRequests,
    RequestDetail,
    RequestView,
    UsageItem,
)
from ussd_server.services.runtime import Runtime
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA, is_id, kampala_day, new_id_floor
from ussd_server.wire import Page, view_of_row

_USED_DAYS = 90
_MOST_GROUPS = 20


# Refused before the key counted as used.
_NO_USE = ("INVALID_CREDENTIALS", "API_KEY_DISABLED", "ADDRESS_NOT_ALLOWED", "RATE_LIMIT_EXCEEDED")


def _people_of(rows: Sequence[ApiRequest]) -> dict[str | None, str]:
    """The e-mail addresses of the people who sent requests, by their ids."""
    ids = {row.user_id for row in rows if row.user_id}
    return {row.id: row.email for row in User.select(User.id, User.email).where(User.id.in_(ids))} if ids else {}


def _views(rows: Sequence[ApiRequest]) -> Iterator[RequestView]:
    people = _people_of(rows)
    return (view_of_row(RequestView, row, person=people.get(row.user_id)) for row in rows)


class RequestLogService:
    """Reads the request log and the usage of keys. The last second may be missing, of usage five."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._tokens, self._replica = runtime.clock, runtime.tokens, runtime.replica

    def list(self, request: ListRequests, context: RequestContext) -> Page[RequestView]:
        """One page of requests, newest first. INVALID_REQUEST for a cursor of another list."""
        context.require("api_keys:list", NOT_PERMITTED)
        if request.key_id is not None and not is_id(request.key_id):
            return Page((), None)
        rows = ApiRequest.select().where(ApiRequest.client_id == context.client_id)
        columns = (ApiRequest.key_id, ApiRequest.status, ApiRequest.code, ApiRequest.path, ApiRequest.request_id)
        rows = matching(rows, request, *columns)
        return page_of(rows, ApiRequest, request, self._tokens, _views, self._replica)

    def get(self, request_id: str, context: RequestContext) -> RequestDetail:
        """The newest request with this id, with its body where it was refused. NOT_FOUND."""
        context.require("api_keys:list", NOT_PERMITTED)
        rows = ApiRequest.select().where(ApiRequest.client_id == context.client_id, ApiRequest.request_id == request_id)
        row = require_row(rows.order_by(ApiRequest.id.desc()).first(), "Request")
        return view_of_row(RequestDetail, row, person=_people_of([row]).get(row.user_id))

    def errors(self, context: RequestContext) -> tuple[ErrorGroup, ...]:
        """The refused calls of the last day by code and endpoint, the most frequent first, 20 at most."""
        context.require("api_keys:list", NOT_PERMITTED)
        count = fn.COUNT(ApiRequest.id)
        rows: Any = (
            ApiRequest.select(ApiRequest.code, ApiRequest.method, ApiRequest.path, count)
            .where(
                ApiRequest.client_id == context.client_id,
                ApiRequest.id >= new_id_floor(self._clock.now() - timedelta(days=1)),
                ApiRequest.status >= 400,
            )
            .group_by(ApiRequest.code, ApiRequest.method, ApiRequest.path)
            .order_by(count.desc())
            .limit(_MOST_GROUPS)
            .tuples()
        )
        return tuple(ErrorGroup(*row) for row in rows)

    def usage(self, request: GetKeyUsage, context: RequestContext) -> KeyUsageView:
        """The usage of a key. INVALID_REQUEST for a malformed id, NOT_FOUND for a key that is not the client's."""
        context.require("api_keys:list", NOT_PERMITTED)
        if not is_id(request.api_key_id):
            raise ServiceError(Code.INVALID_REQUEST, "Invalid API key ID format")
        if not ApiKey.select().where(ApiKey.id == request.api_key_id, ApiKey.client_id == context.client_id).exists():
            raise ServiceError(Code.NOT_FOUND, "API Key not found")
        rows = KeyUsage.select().where(
            KeyUsage.key_id == request.api_key_id, KeyUsage.day > self._days_ago(request.days)
        )
        newest = rows.order_by(KeyUsage.day.desc(), KeyUsage.endpoint, KeyUsage.status, KeyUsage.code)
        return KeyUsageView(tuple(UsageItem(row.day, row.endpoint, row.status, row.code, row.count) for row in newest))

    def used_scopes(self, key_id: str) -> tuple[str, ...]:
        """The scopes that accepted calls of a key needed in the last 90 days, sorted."""
        rows: Any = (
            KeyUsage.select(fn.DISTINCT(KeyUsage.scope))
            .where(
                KeyUsage.key_id == key_id,
                KeyUsage.day > self._days_ago(_USED_DAYS),
                KeyUsage.status < 400,
                KeyUsage.scope != "",
            )
            .tuples()
        )
        # One row is for all scopes that an endpoint needs by its body.
        return tuple(sorted({scope for (scopes,) in rows for scope in scopes.split()}))

    def last_accepted(self, key_ids: Sequence[str]) -> dict[str, tuple[datetime, str]]:
        """When and from which address each key was last accepted, yesterday or today; without the last seconds."""
        rows = KeyUsage.select(KeyUsage.key_id, KeyUsage.last_at, KeyUsage.last_address).where(
            KeyUsage.key_id.in_(list(key_ids)), KeyUsage.day >= self._days_ago(1), KeyUsage.code.not_in(_NO_USE)
        )
        latest: dict[str, tuple[datetime, str]] = {}
        for row in rows:
            call = (row.last_at, row.last_address)
            latest[row.key_id] = max(call, latest.get(row.key_id, call))
        return latest

    def _days_ago(self, days: int) -> str:
        """The day in Kampala so many days ago."""
        return kampala_day(self._clock.now().astimezone(KAMPALA) - timedelta(days=days))
