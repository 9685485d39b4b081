"""Endpoints that look up: providers, their subscribers, and objects by a search."""

from __future__ import annotations

from schemas.lookups import GetHistoryQuery, GetSubscriberQuery, SearchQuery
from ussd_server.api.endpoints import ApiBlueprint, authenticate_api_key
from ussd_server.api.requests import services
from ussd_server.context import SEND, RequestContext
from ussd_server.services.providers.messages import ProviderList, Subscriber
from ussd_server.services.search.messages import Search, SearchReply
from ussd_server.services.subscribers.messages import GetHistory, History, PinReset, ResetPin
from ussd_server.status import Code, ServiceError
from ussd_server.values import PHONE_NUMBER

providers = ApiBlueprint(
    "providers",
    authenticate_api_key,
    "Providers and subscribers",
    "The state of each provider, and the names of subscribers.",
)
search = ApiBlueprint(
    "search", authenticate_api_key, "Search", "Find an object by its id, reference, receipt or phone number."
)


@providers.call("GET", "/api/providers", needs="transactions:read", message="Providers")
def list_providers(context: RequestContext) -> ProviderList:
    """The providers of this server and whether they take payments, from our own calls of the last 15 minutes."""
    return ProviderList(services().provider_states.list(context))


@providers.call("GET", "/api/subscribers", needs="transactions:read", query=GetSubscriberQuery, message="Subscriber")
def get_subscriber(phone_number: str, context: RequestContext) -> Subscriber:
    """Return the name to which its provider has registered a phone number; kept for a day."""
    return services().subscribers.get(phone_number, context)


@providers.call(
    "GET",
    "/api/subscribers/<phone_number>/history",
    needs="transactions:read",
    query=GetHistoryQuery,
    refuses=(Code.INVALID_PHONE_NUMBER,),
    message="Subscriber history",
)
def get_subscriber_history(request: GetHistory, context: RequestContext) -> History:
    """Payments, refunds and sessions of a phone number on one time line, newest first.

    Sessions need the scope `ussd:read` as well.
    """
    _require_phone_number(request.phone_number)
    return services().subscriber_history.get(request, context)


@providers.call(
    "DELETE",
    "/api/subscribers/<phone_number>/pin",
    needs=SEND,
    refuses=(Code.INVALID_PHONE_NUMBER,),
    message="PIN reset",
)
def reset_pin(phone_number: str, context: RequestContext) -> PinReset:
    """Remove the PIN that a subscriber has in your menus, with its lock. The subscriber may choose another.

    A PIN guards money: this needs the right to send it.
    """
    _require_phone_number(phone_number)
    return services().subscriber_pins.reset(ResetPin(phone_number), context)


@search.call("GET", "/api/search", query=SearchQuery, message="Search results")
def find(request: Search, context: RequestContext) -> SearchReply:
    """The client's objects that a whole value names: an id, a reference, a provider's receipt or a phone number."""
    return services().search.search(request, context)


def _require_phone_number(text: str) -> None:
    if not PHONE_NUMBER.fullmatch(text):
        raise ServiceError(Code.INVALID_PHONE_NUMBER, "phone_number: Must be +256 followed by nine digits.")
