"""Endpoints for providers and their subscribers."""

from __future__ import annotations

from schemas.providers import GetSubscriberQuery
from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.providers.messages import GetSubscriber, ProviderList, Subscriber

providers = ApiBlueprint("providers", authenticate_api_key)


@providers.call(
    "GET",
    "/api/providers",
    needs="transactions:read",
    message="Providers",
)
def list_providers(context: RequestContext) -> ProviderList:
    """The providers of this server and whether they take payments, from our own calls of the last 15 minutes."""
    return ProviderList(services().provider_states.list(context))


@providers.call(
    "GET",
    "/api/subscribers",
    needs="transactions:read",
    query=GetSubscriberQuery,
    makes=GetSubscriber,
    message="Subscriber",
)
def get_subscriber(request: GetSubscriber, context: RequestContext) -> Subscriber:
    """Return the name to which its provider has registered a phone number; kept for a day."""
    return services().subscribers.get(request, context)
