"""The application: a session of the database for each request, authentication, and limits."""

from __future__ import annotations

import hmac
import os
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse
from slowapi import Limiter
from slowapi.errors import RateLimitExceeded
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from benchmarks.applications.both_peers import TOO_MANY, digest, written
from benchmarks.applications.fastapi_peer.models import ApiKey, new_session, now

app = FastAPI()
limiter = Limiter(
    lambda request: str(request.state.identity),
    storage_uri=os.environ["PEER_REDIS_URL"].replace("unix:", "redis+unix:"),
    headers_enabled=True,
)
app.state.limiter = limiter
by_key = limiter.limit("100/minute;1000/hour")
"""Limits a view that takes a `Key`."""


class RefusedError(Exception):
    """A refusal, as the API document shows it."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status, self.error, self.message = status, error, message


@app.exception_handler(RefusedError)
async def refuse(_: Request, refused: RefusedError) -> JSONResponse:
    """Return the envelope of a refusal."""
    envelope = {"success": False, "error": refused.error, "message": refused.message, "timestamp": written(now())}
    return JSONResponse(envelope, refused.status)


@app.exception_handler(RateLimitExceeded)
async def refuse_too_many(request: Request, _: RateLimitExceeded) -> JSONResponse:
    """Refuse a call above the limits."""
    return await refuse(request, RefusedError(429, "RATE_LIMIT_EXCEEDED", TOO_MANY))


def success(data: Any, message: str) -> dict[str, Any]:
    """Return a successful reply as the API document shows it."""
    return {"success": True, "data": data, "message": message}


async def _session() -> AsyncIterator[AsyncSession]:
    async with new_session() as session:
        yield session


Database = Annotated[AsyncSession, Depends(_session)]


async def _authenticated(
    request: Request,
    database: Database,
    x_api_key: Annotated[str, Header()] = "",
    x_api_secret: Annotated[str, Header()] = "",
) -> ApiKey:
    key = await database.scalar(select(ApiKey).where(ApiKey.apikey == x_api_key))
    if key is None or not hmac.compare_digest(digest(x_api_secret), key.secret_digest):
        raise RefusedError(401, "INVALID_CREDENTIALS", "Invalid API key or secret")
    expired = key.expires_at is not None and key.expires_at <= now()
    if not key.is_active or not key.client.is_active or expired:
        raise RefusedError(403, "API_KEY_DISABLED", "The API key is disabled or expired")
    key.last_used_at = now()
    await database.commit()
    request.state.identity = key.id
    return key


Key = Annotated[ApiKey, Depends(_authenticated)]


@app.get("/")
async def ready() -> dict[str, str]:
    """Tell that the application serves."""
    return {}


@app.get("/bench/answer")
@by_key
async def answer(request: Request, response: Response, _: Key) -> dict[str, Any]:
    """Return a constant."""
    return success({}, "Done")


from benchmarks.applications.fastapi_peer import payments, phones  # noqa: E402,F401 - they add their views to the app
