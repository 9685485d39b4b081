"""Messages about requests and the usage of keys."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, NamedTuple

from ussd_server.wire import ListPeriod

_METHOD = "The method, such as `POST`."


class LoggedRequest(NamedTuple):
    """One request as the web process saw it, before it is written."""

    request_id: str
    client_id: str
    key_id: str | None
    at: datetime
    method: str
    path: str
    status: int
    code: str
    message: str
    took_ms: int
    address: str
    object_id: str | None
    body: str | None
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class ListRequests(ListPeriod):
    """Request for a page of a client's requests, newest first."""

    key_id: str | None = None
    status: int | None = None
    code: str | None = None
    path: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request that was refused or changed something."""

    request_id: Annotated[str, "The `X-Request-Id` of the call."]
    at: Annotated[datetime, "When it was answered."]
    key_id: Annotated[str | None, "The API key that called; null for a person."]
    person: Annotated[str | None, "The e-mail address of the person who called; null for a key."]
    method: Annotated[str, _METHOD]
    path: Annotated[str, "The path with the names of its variables, such as `/api/transactions/{transaction_id}`."]
    status: Annotated[int, "The HTTP status of the reply."]
    code: Annotated[str, "The error code, `OK` for none."]
    message: Annotated[str, "The sentence of the reply."]
    took_ms: Annotated[int, "How long the reply took, in milliseconds."]
    address: Annotated[str, "The network address of the caller."]
    object_id: Annotated[str | None, "What the request made or changed, where the reply names it."]


@dataclass(frozen=True, slots=True)
class RequestDetail(RequestView):
    body: Annotated[
        str | None,
        "The first 4 KiB of a refused JSON body, secrets as stars; null for any other body.",
    ]


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """How often calls of one endpoint were refused with one code."""

    code: str
    method: str
    path: str
    count: int


@dataclass(frozen=True, slots=True)
class GetKeyUsage:
    """Request for how often a key called what, in the last 1 to 90 days of Kampala, today included."""

    api_key_id: str
    days: int = 30


@dataclass(frozen=True, slots=True)
class UsageItem:
    """How often a key called an endpoint with one result on one day."""

    date: Annotated[str, "The day in Kampala."]
    endpoint: Annotated[str, "Method and path, such as `GET /api/balance`."]
    status: Annotated[int, "The HTTP status of the replies."]
    code: Annotated[str, "The error code, `OK` for none."]
    count: Annotated[int, "How many calls."]


@dataclass(frozen=True, slots=True)
class KeyUsageView:
    """The usage of a key, newest day first."""

    items: Annotated[tuple[UsageItem, ...], "One entry for each day, endpoint, status and code."]
