"""Endpoint for searching."""

from __future__ import annotations

from schemas.search import SearchQuery
from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.search.messages import Search, SearchReply

search = ApiBlueprint("search", authenticate_api_key)


@search.call("GET", "/api/search", query=SearchQuery, message="Search results")
def find(request: Search, context: RequestContext) -> SearchReply:
    """The client's objects that a whole value names: an id, a reference, a provider's receipt or a phone number."""
    return services().search.search(request, context)
