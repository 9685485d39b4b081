"""What a call raises."""

from __future__ import annotations


class ClientError(Exception):
    """The base of all errors of this library."""


class UnreachableError(ClientError):
    """No whole reply came: no connection, a time-out or a broken reply. The request may have been carried out."""


class ApiError(ClientError):
    """The service refused the request.

    `status` is the HTTP status, `code` the error code of the API (`UNKNOWN` where another server replied),
    `request_id` names the request to the operator, `retry_after` are seconds, or None where the reply has none.
    """

    def __init__(self, status: int, code: str, message: str, request_id: str | None, retry_after: int | None) -> None:
        super().__init__(f"{status} {code}: {message} (request {request_id})")
        self.status, self.code, self.message = status, code, message
        self.request_id, self.retry_after = request_id, retry_after


class RequestError(ApiError):
    """400, 405, 413, 415: the request cannot be accepted as it is."""


class AuthenticationError(ApiError):
    """401: the key or its secret is wrong."""


class PermissionDeniedError(ApiError):
    """403: the key is disabled or expired, or lacks the scope, or the address is not allowed."""


class NotFoundError(ApiError):
    """404: there is no such object, or it belongs to another client."""


class RateLimitError(ApiError):
    """429: the key is over a limit for `retry_after` seconds."""


class UnavailableError(ApiError):
    """500 to 599: the service or the provider is down."""


_BY_STATUS: dict[int, type[ApiError]] = {
    401: AuthenticationError,
    403: PermissionDeniedError,
    404: NotFoundError,
    429: RateLimitError,
}


def error_of(status: int, code: str, message: str, request_id: str | None, retry_after: int | None) -> ApiError:
    """Return the error of an HTTP status."""
    kind = _BY_STATUS.get(status) or (UnavailableError if status >= 500 else RequestError)
    return kind(status, code, message, request_id, retry_after)
