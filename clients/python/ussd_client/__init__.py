"""A client of the USSD and mobile-money API. It needs the standard library only."""

from ussd_client.client import StillOpenError, UssdClient
from ussd_client.errors import (
    ApiError,
    AuthenticationError,
    ClientError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    RequestError,
    UnavailableError,
    UnreachableError,
)
from ussd_client.webhooks import WebhookError, verify_webhook

__all__ = [
    "ApiError",
    "AuthenticationError",
    "ClientError",
    "NotFoundError",
    "PermissionDeniedError",
    "RateLimitError",
    "RequestError",
    "StillOpenError",
    "UnavailableError",
    "UnreachableError",
    "UssdClient",
    "WebhookError",
    "verify_webhook",
]
