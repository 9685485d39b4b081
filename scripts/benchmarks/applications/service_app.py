"""The service with one more authenticated endpoint, which returns a constant."""

from __future__ import annotations

from typing import Any

from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.context import RequestContext
from wsgi import app

__all__ = ["app"]

blueprint = ApiBlueprint("bench", authenticate_api_key, "Benchmark", "An answer that never changes.")


@blueprint.call("GET", "/bench/answer", message="Done")
def answer(_: RequestContext) -> dict[str, Any]:
    """Return the same constant as the bare application."""
    return {}


app.register_blueprint(blueprint)
