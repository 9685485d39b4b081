"""The signature of calls to addresses that clients chose, after the Standard Webhooks specification."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from standardwebhooks import Webhook


@dataclass(frozen=True, slots=True)
class Signature:
    """What a call is signed with: its own id, a moment in UTC, and the secrets that are good now.

    A secret is `whsec_` with base64 behind it, or the very bytes.
    """

    call_id: str
    at: datetime
    secrets: Sequence[str | bytes] = field(repr=False)

    def headers(self, body: bytes) -> dict[str, str]:
        """The three headers by which the receiver knows the call, of a body in UTF-8; one signature for each secret."""
        text = body.decode()
        return {
            "webhook-id": self.call_id,
            "webhook-timestamp": str(int(self.at.timestamp())),
            "webhook-signature": " ".join(Webhook(secret).sign(self.call_id, self.at, text) for secret in self.secrets),
        }
