"""Signatures of requests to clients' servers, by the Standard Webhooks specification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from standardwebhooks import Webhook


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
