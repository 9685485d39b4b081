"""What several parts of the peer use."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta
from typing import Any

TOO_MANY = "Rate limit exceeded. Maximum 100 requests per minute (1000 per hour) allowed."
IDLE = timedelta(seconds=180)
BACK = "0"
_PEPPER = b"the pepper of an application that is only measured"


def digest(secret: str) -> bytes:
    """Return what is kept of a secret."""
    return hmac.digest(_PEPPER, secret.encode(), hashlib.sha256)


def written(moment: datetime | None) -> str | None:
    """Return a time as the API shows it."""
    return moment and moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def goals_of(node: dict[str, Any]) -> dict[str, Any]:
    """The nodes to which the entries of a menu lead."""
    return {option.get("key", str(place)): option["goto"] for place, option in enumerate(node["options"], 1)}


def enter(session: Any, node: str, nodes: dict[str, Any], moment: datetime) -> bool:
    """Move a session to a node; return whether that node ends it."""
    session.node = node
    session.turn += 1
    session.message = screen(nodes[node], may_go_back=True)
    session.last_seen_at, session.expires_at = moment, moment + IDLE
    is_end = nodes[node]["type"] == "end"
    if is_end:
        session.status, session.ended_at = "completed", moment
    return is_end


def screen(node: dict[str, Any], *, may_go_back: bool = False) -> str:
    """The text of a node with its options."""
    lines = [node["text"]["en"]]
    for place, option in enumerate(node.get("options", ()), 1):
        lines.append(f"{option.get('key', place)}. {option['label']['en']}")
    if may_go_back and node["type"] == "menu":
        lines.append(f"{BACK} Back")
    return "\n".join(lines)
