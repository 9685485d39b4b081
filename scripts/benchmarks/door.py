"""The whole service with one route more, behind the door of client programs, that only answers."""

from __future__ import annotations

from typing import Any

from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.context import RequestContext
from wsgi import app

__all__ = ["app"]

door = ApiBlueprint("bench", authenticate_api_key)


@door.call("GET", "/bench/door", message="Done")
def answer(_: RequestContext) -> dict[str, Any]:
    """What the bare application answers."""
    return {}


app.register_blueprint(door)
