"""Signatures of requests to clients' servers, and of notices of providers, by the Standard Webhooks specification."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from standardwebhooks import Webhook

_TOLERANCE_SECONDS = 300
_MOST_SIGNATURES = 10


@dataclass(frozen=True, slots=True)
class Signature:
    """The parts of a signature: the request's id, a time in UTC, and the secrets that are valid now.

    A secret is `whsec_` followed by base64, or bytes.
    """

    call_id: str
    at: datetime
    secrets: Sequence[str | bytes] = field(repr=False)

    def headers(self, body: bytes) -> dict[str, str]:
        """Return the three signature headers for a UTF-8 body, with one signature for each secret."""
        text = body.decode()
        return {
            "webhook-id": self.call_id,
            "webhook-timestamp": str(int(self.at.timestamp())),
            "webhook-signature": " ".join(Webhook(secret).sign(self.call_id, self.at, text) for secret in self.secrets),
        }


def is_signed(headers: Mapping[str, str], body: bytes, secrets: Sequence[str], now: datetime) -> bool:
    """Whether one of the secrets signed a body, within five minutes before or after `now`."""
    call_id, seconds, header = (headers.get(f"webhook-{name}", "") for name in ("id", "timestamp", "signature"))
    if not call_id or not seconds.isascii() or not seconds.isdigit() or len(seconds) > 12:
        return False
    if abs(now.timestamp() - int(seconds)) > _TOLERANCE_SECONDS:
        return False
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return False
    at = datetime.fromtimestamp(int(seconds), UTC)
    expected = [Webhook(secret).sign(call_id, at, text).encode() for secret in secrets]
    signatures = [signature.encode() for signature in header.split(" ")[:_MOST_SIGNATURES]]
    return any(hmac.compare_digest(mine, theirs) for mine in expected for theirs in signatures)
