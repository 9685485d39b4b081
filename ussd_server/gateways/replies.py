"""The two formats of replies to gateways: plain text and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ussd_server.gateways.messages import GatewayReply


def plain_reply(text: str, headers: Mapping[str, str] | None = None) -> GatewayReply:
    """Return a reply in UTF-8 without a byte order mark. Unencodable characters become question marks."""
    return GatewayReply(text.encode("utf-8", "replace"), "text/plain; charset=utf-8", headers or {})


def json_reply(members: Mapping[str, object]) -> GatewayReply:
    """Return a reply as a JSON object in ASCII with escapes, which every JSON parser reads."""
    return GatewayReply(json.dumps(members).encode("ascii"), "application/json")
