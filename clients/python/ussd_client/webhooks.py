"""Verification of webhooks, by the Standard Webhooks specification."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Any

from ussd_client.errors import ClientError
from ussd_client.transport import parse_json

_MOST_SIGNATURES = 20


class WebhookError(ClientError):
    """A request is not from the service, is too old, or was changed on its way."""


def verify_webhook(
    secret: str, headers: Mapping[str, str], body: bytes, *, tolerance: float = 300, now: float | None = None
) -> dict[str, Any]:
    """Return the event of a request to your server.

    `secret` is the webhook's (`whsec_...`), `body` the raw bytes. The time that was signed may be `tolerance` seconds
    before or after `now`, which is Unix time. WebhookError otherwise; reply 400 then.
    ValueError if the secret is not a webhook's.
    """
    key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    if not key:
        raise ValueError("the secret is empty")
    given = {name.lower(): value for name, value in headers.items()}
    try:
        name, timestamp, signatures = (given[f"webhook-{each}"] for each in ("id", "timestamp", "signature"))
        age = abs((time.time() if now is None else now) - int(timestamp))
        signed = f"{name}.{timestamp}.".encode() + body
        signed_by = [each.encode("ascii") for each in signatures.split(" ", _MOST_SIGNATURES)]
    except (KeyError, ValueError):
        raise WebhookError("the headers are missing or wrong") from None
    expected = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    if not any([hmac.compare_digest(expected, each) for each in signed_by]):  # noqa: C419 - each one is compared
        raise WebhookError("no signature fits")
    if age > tolerance:
        raise WebhookError("the request is too old, or a clock is wrong")
    try:
        event = parse_json(body)
    except ValueError:
        event = None
    if not isinstance(event, dict):
        raise WebhookError("the body is no event")
    return event
