"""The application: a pooled connection for each request, authentication, and limits."""

from __future__ import annotations

import hmac
import os
from functools import wraps
from typing import Any

from flask import Flask, Response, abort, g, jsonify, request
from flask_limiter import Limiter

from benchmarks.applications.peer.common import TOO_MANY, digest, written
from benchmarks.applications.peer.models import ApiKey, Client, database, now

app = Flask("peer")
limiter = Limiter(
    lambda: str(g.identity),
    app=app,
    storage_uri=os.environ["PEER_REDIS_URL"].replace("unix:", "redis+unix:"),
    headers_enabled=True,
)


@app.before_request
def connect() -> None:
    """Take a connection from the pool."""
    database.connect()


@app.teardown_request
def give_back(_: BaseException | None) -> None:
    """Give the connection back."""
    if not database.is_closed():
        database.close()


@app.errorhandler(429)
def refuse_too_many(_: Exception) -> Response:
    """Refuse a call above the limits."""
    return refusal(429, "RATE_LIMIT_EXCEEDED", TOO_MANY)


def refusal(status: int, error: str, message: str) -> Response:
    """Return a refusal as the API document shows it."""
    response = jsonify({"success": False, "error": error, "message": message, "timestamp": written(now())})
    response.status_code = status
    return response


def success(data: Any, message: str) -> Response:
    """Return a successful reply as the API document shows it."""
    return jsonify({"success": True, "data": data, "message": message})


def by_key(view: Any) -> Any:
    """Let a view be called with an API key and its secret, as often as the limits allow."""
    limited = limiter.limit("100 per minute; 1000 per hour")(view)

    @wraps(limited)
    def checked(**variables: str) -> Any:
        key = (
            ApiKey.select(ApiKey, Client)
            .join(Client)
            .where(ApiKey.apikey == request.headers.get("x-api-key", ""))
            .first()
        )
        secret_digest = digest(request.headers.get("x-api-secret", ""))
        if key is None or not hmac.compare_digest(secret_digest, bytes(key.secret_digest)):
            abort(refusal(401, "INVALID_CREDENTIALS", "Invalid API key or secret"))
        expired = key.expires_at is not None and key.expires_at <= now()
        if not key.is_active or not key.client.is_active or expired:
            abort(refusal(403, "API_KEY_DISABLED", "The API key is disabled or expired"))
        ApiKey.update(last_used_at=now()).where(ApiKey.id == key.id).execute()
        g.client, g.identity = key.client, key.id
        return limited(**variables)

    return checked


@app.get("/bench/answer")
@by_key
def authenticated() -> Response:
    """Return a constant."""
    return success({}, "Done")


from benchmarks.applications.peer import payments, phones  # noqa: E402,F401 - they add their views to the app
