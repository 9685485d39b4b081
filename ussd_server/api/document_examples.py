"""The examples of the API document: what a scenario sent, what the service replied, and what webhooks receive.

`scripts/document` plays the scenario and writes `examples.json`; a test plays it again and compares.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from ussd_server.status import Code

_Json = dict[str, Any]
# Its refusals are those of every operation that takes an access token.
_TYPICAL = "create_api_key"


@cache
def examples() -> _Json:
    """Return all examples, by kind and name."""
    by_kind: _Json = orjson.loads(Path(__file__).with_name("examples.json").read_bytes())
    return by_kind


def request_example(operation: str) -> _Json:
    """Return the `example` of a request body; nothing for an operation that has none."""
    requests = examples()["requests"]
    return {"example": requests[operation]} if operation in requests else {}


def reply_example(operation: str, status: str) -> _Json:
    """Return the `example` of a success; nothing for a reply that is not shown."""
    replies = examples()["replies"].get(operation, {})
    return {"example": replies[status]} if status in replies else {}


def error_examples() -> _Json:
    """Return an example of each error code, by code. No known request causes `INTERNAL_ERROR`."""
    return {error: {"summary": reply["message"], "value": reply} for error, reply in examples()["errors"].items()}


def management_error_examples(operation: str, status: int, *, has_body: bool) -> _Json:
    """Return the examples of an operation's refusals with a status, by name; without any, the one that all share."""
    of_operations: _Json = examples()["management_errors"]
    own = of_operations.get(operation, {}).get(str(status))
    typical = dict(list(of_operations.get(_TYPICAL, {}).get(str(status), {}).items())[:1])
    is_of_a_body = status == Code.INVALID_REQUEST.http_status
    replies = own or (typical if has_body or not is_of_a_body else {})
    return {_slug(message): {"summary": message, "value": body} for message, body in replies.items()}


def _slug(message: str) -> str:
    return re.sub("[^A-Za-z0-9]+", "_", message).strip("_")
