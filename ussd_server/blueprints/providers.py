"""Endpoint for providers."""

from __future__ import annotations

from typing import Any

from schemas.providers import ProvidersRecord
from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.api.requests import services
from ussd_server.context import RequestContext

providers = ApiBlueprint("providers", authenticate_api_key)


@providers.call(
    "GET", "/api/providers", needs="transactions:read", gives=ProvidersRecord(), message="Providers",
)  # fmt: skip
def list_providers(context: RequestContext) -> dict[str, Any]:
    """The providers of this server and whether they take payments, from our own calls of the last 15 minutes."""
    return {"items": services().providers.states.list(context)}
