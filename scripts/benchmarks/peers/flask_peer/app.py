"""The application: a pooled connection for each request, the door, and the limits."""

from __future__ import annotations

from datetime import timedelta
from functools import wraps
from typing import Any

from flask import Flask, Response, abort, g, jsonify, request
from flask_limiter import Limiter

from benchmarks.peers import common
from benchmarks.peers.flask_peer.models import ApiKey, Client, database, now

app = Flask("flask_peer")
limiter = Limiter(
    lambda: str(g.identity),
    app=app,
    storage_uri=common.REDIS_URL.replace("unix:", "redis+unix:"),
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
    """The limits' refusal in the API's words."""
    return refusal(*common.LIMITED)


def refusal(status: int, error: str, message: str) -> Response:
    """A refusal in the API's words."""
    response = jsonify(common.failure(error, message))
    response.status_code = status
    return response


def by_key(view: Any) -> Any:
    """Let a view be called by whoever shows a key and its secret, as often as the limits allow."""
    limited = limiter.limit("100 per minute; 1000 per hour")(view)

    @wraps(limited)
    def checked(**variables: str) -> Any:
        key = (
            ApiKey.select(ApiKey, Client)
            .join(Client)
            .where(ApiKey.apikey == request.headers.get("x-api-key", ""))
            .first()
        )
        if key is None or not common.is_secret(request.headers.get("x-api-secret", ""), key.secret_digest):
            abort(refusal(*common.INVALID))
        expired = key.expires_at is not None and key.expires_at <= now()
        if not key.is_active or not key.client.is_active or expired:
            abort(refusal(*common.DISABLED))
        note_use(key)
        g.client, g.identity = key.client, key.id
        return limited(**variables)

    return checked


def note_use(key: ApiKey) -> None:
    """Keep when the key was used last."""
    this_moment = now()
    noted_before = this_moment - timedelta(seconds=common.NOTE_SECONDS)
    if key.last_used_at is None or key.last_used_at <= noted_before:
        ApiKey.update(last_used_at=this_moment).where(ApiKey.id == key.id).execute()


@app.get("/bench/door")
@by_key
def door() -> Any:
    """The door alone."""
    return jsonify(common.success({}, "Done"))


from benchmarks.peers.flask_peer import keys, payments, phones  # noqa: E402,F401 - they add their views to the app
