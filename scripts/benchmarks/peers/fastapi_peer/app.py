"""The application: a session for each request, the door, and the limits."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from fastapi.responses import JSONResponse
from limits import parse_many
from limits.aio.storage import RedisStorage
from limits.aio.strategies import FixedWindowRateLimiter
from sqlalchemy import select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import joinedload

from benchmarks.peers import common
from benchmarks.peers.fastapi_peer.models import ApiKey, Session, now

app = FastAPI()
_limits = parse_many("100 per minute; 1000 per hour")
_storage = RedisStorage(common.REDIS_URL.replace("unix:", "async+redis+unix:"), implementation="redispy")
_limiter = FixedWindowRateLimiter(_storage)


@app.exception_handler(HTTPException)
async def refuse(_: Request, refusal: HTTPException) -> JSONResponse:
    """A refusal in the API's words."""
    error, message = refusal.detail
    return JSONResponse(common.failure(error, message), refusal.status_code, headers=refusal.headers)


def refusal(status: int, error: str, message: str, headers: dict[str, str] | None = None) -> HTTPException:
    """A refusal to be raised."""
    return HTTPException(status, (error, message), headers)


async def open_session() -> Any:
    """A session of the database, given back after the answer."""
    async with Session() as session:
        yield session


async def by_key(
    response: Response,
    session: Annotated[AsyncSession, Depends(open_session)],
    x_api_key: Annotated[str, Header()] = "",
    x_api_secret: Annotated[str, Header()] = "",
) -> ApiKey:
    """Let through whoever shows a key and its secret, as often as the limits allow."""
    key = await session.scalar(select(ApiKey).options(joinedload(ApiKey.client)).where(ApiKey.apikey == x_api_key))
    if key is None or not common.is_secret(x_api_secret, key.secret_digest):
        raise refusal(*common.INVALID)
    if not key.is_active or not key.client.is_active or (key.expires_at is not None and key.expires_at <= now()):
        raise refusal(*common.DISABLED)
    await note_use(key, session)
    response.headers.update(await _limit(str(key.id)))
    return key


async def note_use(key: ApiKey, session: AsyncSession) -> None:
    """Keep when the key was used last."""
    this_moment = now()
    noted_before = this_moment - timedelta(seconds=common.NOTE_SECONDS)
    if key.last_used_at is None or key.last_used_at <= noted_before:
        await session.execute(update(ApiKey).where(ApiKey.id == key.id).values(last_used_at=this_moment))
        await session.commit()


async def _limit(identity: str) -> dict[str, str]:
    """Count the call; gives the headers of the tighter limit."""
    accepted = [await _limiter.hit(limit, identity) for limit in _limits]
    states = [(limit, await _limiter.get_window_stats(limit, identity)) for limit in _limits]
    limit, state = min(states, key=lambda each: each[1].remaining)
    headers = {
        "X-RateLimit-Limit": str(limit.amount),
        "X-RateLimit-Remaining": str(state.remaining),
        "X-RateLimit-Reset": str(int(state.reset_time)),
    }
    if not all(accepted):
        raise refusal(*common.LIMITED, headers)
    return headers


@app.get("/bench/door")
async def door(_: Annotated[ApiKey, Depends(by_key)]) -> dict[str, Any]:
    """The door alone."""
    return common.success({}, "Done")
