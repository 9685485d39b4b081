"""Operators' pages of objects that belong to a client."""

from __future__ import annotations

from dataclasses import replace

from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.clients.messages import ClientView


def acting_for(client: ClientView, context: RequestContext) -> RequestContext:
    """The operator's request, on behalf of a client."""
    return replace(context, caller=replace(context.caller, client_id=client.client_id))


def acting_for_owner(kind: str, object_id: str, context: RequestContext) -> tuple[ClientView, RequestContext]:
    """The client that an object belongs to, and the operator's request on its behalf. NOT_FOUND for no such object."""
    client = services().clients.find(services().search.owner_of(kind, object_id, context), context)
    return client, acting_for(client, context)
