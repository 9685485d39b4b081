"""The closed set of error codes, with the HTTP status and the meaning of each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum


class Code(Enum):
    """The closed set of error codes. The name is the public `error` code.

    A value is the HTTP status, when a call is refused with the code, and what that is not to be confused with;
    docs/reference/ERROR_CODES.md is made from it. The first eight are fixed by the API document, the others by section
    7 of the wire contract.
    """

    INVALID_CREDENTIALS = (
        401,
        "a header is missing, or the key is unknown or deleted, or the secret is wrong",
        "`API_KEY_DISABLED`: both are right",
    )
    API_KEY_DISABLED = (
        403,
        "the key or its client is disabled, or the key has expired",
        "`INSUFFICIENT_SCOPE`: another key of yours may be allowed",
    )
    INVALID_PHONE_NUMBER = (
        400,
        "a phone number is not `+256` and nine digits",
        "`INVALID_REQUEST`: the number is missing",
    )
    INVALID_AMOUNT = (
        400,
        "an amount is malformed or out of bounds, the provider's bounds included, or a refund exceeds what is left",
        "`INSUFFICIENT_BALANCE`: the amount is fine, the account is too low",
    )
    RATE_LIMIT_EXCEEDED = (
        429,
        "the key has used up its minute or its hour",
        "`SERVICE_UNAVAILABLE`: it does not depend on you",
    )
    SESSION_NOT_FOUND = (404, "you have no such USSD session, or it has ended", "`INVALID_TURN`: the session goes on")
    INSUFFICIENT_BALANCE = (
        400,
        "your account here is too low; nothing was stored or sent",
        "the same word in `failure.code`: the payer's wallet is too low",
    )
    TRANSACTION_FAILED = (
        502,
        "the provider is known to be down; nothing was stored",
        "`status` `failed` in a 201: the payment was stored and did not succeed",
    )
    DAILY_LIMIT_REACHED = (
        400,
        "the payment, its fee included, is more than the key may still pay today; nothing was stored or sent",
        "`INSUFFICIENT_BALANCE`: no limit of a key is in the way",
    )
    INVALID_REQUEST = (
        400,
        "anything else is wrong with the body, the query or the object's state",
        "a code that names the fault: it goes first",
    )
    IDEMPOTENCY_KEY_REUSED = (
        400,
        "the `reference` or `Idempotency-Key` names other content already",
        "200 with `Idempotent-Replayed: true`: the same content",
    )
    INVALID_TURN = (
        400,
        "`turn` is neither the last number nor the next",
        "200 with the last reply: `turn` is the last number",
    )
    MENU_INVALID = (
        400,
        "the check of the menu finds an error; `message` names the first",
        "a draft with errors is saved, with its report",
    )
    INSUFFICIENT_SCOPE = (
        403,
        "the key lacks the scope that the message names, or the person behind it made the payout that it approves",
        "`API_KEY_DISABLED`: the key may do nothing at all",
    )
    ADDRESS_NOT_ALLOWED = (
        403,
        "key and secret are right, and `allowed_addresses` of the key lacks the address that the call came from, "
        "which the message names",
        "`API_KEY_DISABLED`: the key is refused from everywhere",
    )
    NOT_FOUND = (
        404,
        "you have no such object of another kind, or there is no such path",
        "`METHOD_NOT_ALLOWED`: the path exists",
    )
    TRANSACTION_NOT_FOUND = (404, "you have no such transaction", "`NOT_FOUND`: any other object")
    METHOD_NOT_ALLOWED = (405, "the path has no such method", "`NOT_FOUND`: the path does not exist")
    REQUEST_TOO_LARGE = (413, "the body is too large", "`INVALID_REQUEST`: it has too many levels")
    UNSUPPORTED_MEDIA_TYPE = (
        415,
        "the body is not sent as JSON in UTF-8",
        "`INVALID_REQUEST`: it is sent as JSON, but malformed",
    )
    INTERNAL_ERROR = (
        500,
        "a bug in the service; the reply has no details",
        "`SERVICE_UNAVAILABLE`: a repeat helps once that part is back",
    )
    SERVICE_UNAVAILABLE = (
        503,
        "a part of the service, such as the database, does not reply; the payment may have been stored",
        "`TRANSACTION_FAILED`: nothing was stored",
    )

    def __init__(self, http_status: int, when: str, neighbour: str) -> None:
        self.http_status = http_status
        self.when = when
        self.neighbour = neighbour
        self.error = self.name


class ServiceError(Exception):
    """A refusal: one code, one sentence for the caller, and, where known, the seconds until a retry.

    Authentication sets `key_id` and `client_id`, for the log, where it knows whose key it refuses, and the `headers`
    that show its limits.
    """

    key_id: str | None = None
    client_id: str | None = None
    headers: Mapping[str, str] | None = None

    def __init__(self, code: Code, message: str, *, retry_after_seconds: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retry_after_seconds = retry_after_seconds


class CursorError(ServiceError):
    """A refusal of a cursor that is not of its list."""

    def __init__(self) -> None:
        super().__init__(Code.INVALID_REQUEST, "cursor: Not a cursor of this list.")
