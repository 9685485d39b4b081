"""The whole service with one route more, behind the door of client programs, that only answers."""

from __future__ import annotations

from typing import Any

from ussd_server.blueprints.doors import Doorway, by_key
from ussd_server.rpc.context import CallContext
from wsgi import app

__all__ = ["app"]

door = Doorway("bench", by_key)


@door.call("GET", "/bench/door", message="Done")
def answer(_: CallContext) -> dict[str, Any]:
    """What the bare application answers."""
    return {}


app.register_blueprint(door)
