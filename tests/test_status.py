"""The table of refusals, held against the API document and the wire contract."""

from __future__ import annotations

import pytest

from ussd_server.status import Code, ServiceError

# The API document's eight, then section 7 of the wire contract.
TABLE = {
    "INVALID_CREDENTIALS": 401, "API_KEY_DISABLED": 403, "INVALID_PHONE_NUMBER": 400, "INVALID_AMOUNT": 400,
    "RATE_LIMIT_EXCEEDED": 429, "SESSION_NOT_FOUND": 404, "INSUFFICIENT_BALANCE": 400, "TRANSACTION_FAILED": 502,
    "INVALID_REQUEST": 400, "DAILY_LIMIT_REACHED": 400,
    "IDEMPOTENCY_KEY_REUSED": 400, "INVALID_TURN": 400, "MENU_INVALID": 400,
    "INSUFFICIENT_SCOPE": 403, "ADDRESS_NOT_ALLOWED": 403, "NOT_FOUND": 404, "TRANSACTION_NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405, "REQUEST_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415, "INTERNAL_ERROR": 500, "SERVICE_UNAVAILABLE": 503,
}  # fmt: skip


def test_the_codes_are_the_contracts_and_no_others() -> None:
    assert {code.error: code.http_status for code in Code} == TABLE


def test_a_refusal_carries_its_sentence_and_when_to_come_again() -> None:
    with pytest.raises(ServiceError) as caught:
        raise ServiceError(Code.SERVICE_UNAVAILABLE, "Not now", retry_after_seconds=3)
    assert (caught.value.code, caught.value.message, caught.value.retry_after_seconds) == (
        Code.SERVICE_UNAVAILABLE,
        "Not now",
        3,
    )
    assert ServiceError(Code.NOT_FOUND, "Not here").retry_after_seconds is None
