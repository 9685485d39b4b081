"""The closed set of error codes, with the HTTP status of each."""

from __future__ import annotations

from enum import Enum


class Code(Enum):
    """The closed set of error codes. A value is the HTTP status and the name, which keeps codes of one status apart.

    The name is the public `error` code. The first eight are fixed by the API document, the others by section 7 of the
    wire contract.
    """

    INVALID_CREDENTIALS = (401, "INVALID_CREDENTIALS")
    API_KEY_DISABLED = (403, "API_KEY_DISABLED")
    INVALID_PHONE_NUMBER = (400, "INVALID_PHONE_NUMBER")
    INVALID_AMOUNT = (400, "INVALID_AMOUNT")
    RATE_LIMIT_EXCEEDED = (429, "RATE_LIMIT_EXCEEDED")
    SESSION_NOT_FOUND = (404, "SESSION_NOT_FOUND")
    INSUFFICIENT_BALANCE = (400, "INSUFFICIENT_BALANCE")
    TRANSACTION_FAILED = (502, "TRANSACTION_FAILED")
    DAILY_LIMIT_REACHED = (400, "DAILY_LIMIT_REACHED")
    INVALID_REQUEST = (400, "INVALID_REQUEST")
    IDEMPOTENCY_KEY_REUSED = (400, "IDEMPOTENCY_KEY_REUSED")
    INVALID_TURN = (400, "INVALID_TURN")
    MENU_INVALID = (400, "MENU_INVALID")
    INSUFFICIENT_SCOPE = (403, "INSUFFICIENT_SCOPE")
    ADDRESS_NOT_ALLOWED = (403, "ADDRESS_NOT_ALLOWED")
    NOT_FOUND = (404, "NOT_FOUND")
    TRANSACTION_NOT_FOUND = (404, "TRANSACTION_NOT_FOUND")
    METHOD_NOT_ALLOWED = (405, "METHOD_NOT_ALLOWED")
    REQUEST_TOO_LARGE = (413, "REQUEST_TOO_LARGE")
    UNSUPPORTED_MEDIA_TYPE = (415, "UNSUPPORTED_MEDIA_TYPE")
    INTERNAL_ERROR = (500, "INTERNAL_ERROR")
    SERVICE_UNAVAILABLE = (503, "SERVICE_UNAVAILABLE")

    def __init__(self, http_status: int, error: str) -> None:
        self.http_status = http_status
        self.error = error


class ServiceError(Exception):
    """A refusal: one code, one sentence for the caller, and, where known, the seconds until a retry.

    Authentication sets `key_id` and `client_id`, for the log, where it knows whose key it refuses.
    """

    key_id: str | None = None
    client_id: str | None = None

    def __init__(self, code: Code, message: str, *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_seconds = retry_after_seconds
