"""The two shapes in which phone companies take an answer: plain text and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ussd_server.messages.gateways import GatewayReply


def plain_reply(text: str, headers: Mapping[str, str] | None = None) -> GatewayReply:
    """An answer in UTF-8 text, without a byte order mark. What UTF-8 cannot write becomes a question mark."""
    return GatewayReply(text.encode("utf-8", "replace"), "text/plain; charset=utf-8", headers or {})


def json_reply(members: Mapping[str, object]) -> GatewayReply:
    """An answer as a JSON object, in ASCII with escapes, which every reader of JSON takes."""
    return GatewayReply(json.dumps(members).encode("ascii"), "application/json")
