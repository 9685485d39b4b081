"""What the peers share: where their servers are, what they keep of a secret, and their answers."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from datetime import UTC, datetime
from typing import Any

DATABASE_URL = os.environ["PEER_DATABASE_URL"]
REDIS_URL = os.environ["PEER_REDIS_URL"]
# A call is noted with its key when the last note is older than this; 0 notes every call.
NOTE_SECONDS = int(os.environ.get("PEER_NOTE_SECONDS", "0"))
PEPPER = b"the pepper of a program that is only measured"

DISABLED = (403, "API_KEY_DISABLED", "The API key is disabled or expired")
INVALID = (401, "INVALID_CREDENTIALS", "Invalid API key or secret")
LIMITED = (
    429, "RATE_LIMIT_EXCEEDED", "Rate limit exceeded. Maximum 100 requests per minute (1000 per hour) allowed.",
)  # fmt: skip


def digest(secret: str) -> bytes:
    """What is kept of a secret."""
    return hmac.digest(PEPPER, secret.encode(), hashlib.sha256)


def is_secret(secret: str, kept: bytes) -> bool:
    """Whether this is the secret that was kept; compares in constant time."""
    return hmac.compare_digest(digest(secret), bytes(kept))


def new_secret() -> str:
    """A fresh secret."""
    return secrets.token_urlsafe(32)


def new_apikey() -> str:
    """A fresh key."""
    return secrets.token_hex(11)


def success(data: Any, message: str) -> dict[str, Any]:
    """The answer to a call that was served."""
    return {"success": True, "data": data, "message": message}


def failure(error: str, message: str) -> dict[str, Any]:
    """The answer to a call that was refused."""
    return {"success": False, "error": error, "message": message, "timestamp": written(datetime.now(UTC))}


def written(moment: datetime | None) -> str | None:
    """A moment as the API shows it."""
    return moment and moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
