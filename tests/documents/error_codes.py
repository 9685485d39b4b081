"""Writes docs/reference/ERROR_CODES.md: the errors of the API, and why payments fail."""

from __future__ import annotations

from pathlib import Path

from ussd_server.providers.failures import FAILURES
from ussd_server.status import Code

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "ERROR_CODES.md"
_HEAD = """# Error codes

`scripts/document` writes this page from `ussd_server/status.py` and `ussd_server/providers/failures.py`.

## Errors of requests

`error` is one of these codes. The list is closed; messages are for people and may change.

| code | status | when | not to be confused with |
| --- | --- | --- | --- |
"""
_FAILURES = """
## Failures of payments

The codes of `failure.code` are the same for every provider; `failure_reasons.csv` in the folder of each says what its
own codes mean. `retry` is `no`: another attempt fails as well; `new_attempt`: try again under a new `reference`;
`after_user_action`: after the payer has done something, such as adding money; `wait`: try again later.

| `failure.code` | what happened | `fault` | `retry` |
| --- | --- | --- | --- |
"""
_KEY_MANAGEMENT = """
## Key management

Everything under `/api/clients/` has one message for each case instead of codes; `/docs` shows those of each endpoint.

| status | message | when |
| --- | --- | --- |
| 400 | Invalid request body | the body is wrong; for a key the wrong field and its fault follow |
| 400 | Invalid query parameters | an unknown or repeated parameter |
| 400 | Invalid API key ID format | the id is not a UUID |
| 400 | API Key limit reached | the client has 50 keys |
| 401 | Invalid JWT token | the token is missing, wrong, expired, or its login has ended |
| 401 | Invalid credentials | e-mail, password or code is wrong; one message for all |
| 401 | Second factor required | the password is right; send `code` as well |
| 401 | Invalid refresh token | it is wrong, expired, or was used before |
| 403 | Insufficient permissions | the role may not do this |
| 403 | Insufficient permissions to delete this API key | the role may not delete keys |
| 404 | API Key not found | you have no such key |
| 429 | Too many login attempts | wait `Retry-After` seconds |
"""


def written_page() -> str:
    """Return the page."""
    errors = [f"| `{code.error}` | {code.http_status} | {code.when} | {code.neighbour} |\n" for code in Code]
    failures = [f"| `{code}` | {kind.message} | `{kind.fault}` | `{kind.retry}` |\n" for code, kind in FAILURES.items()]
    return "".join([_HEAD, *errors, _FAILURES, *failures, _KEY_MANAGEMENT])


def write_error_codes() -> None:
    """Replace the page."""
    PAGE.write_text(written_page(), encoding="utf-8")
