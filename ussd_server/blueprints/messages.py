"""Endpoints for messages (SMS)."""

from __future__ import annotations

from schemas.messages import CreateMessageBody, ListMessagesQuery
from ussd_server.api.endpoints import ApiBlueprint, EndpointReply, authenticate_api_key
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.sms.messages import CreateSms, ListSms, NameSms, SmsView
from ussd_server.status import Code
from ussd_server.wire import Page

messages = ApiBlueprint("messages", authenticate_api_key)


@messages.call(
    "POST",
    "/api/messages",
    needs="messages:write",
    takes=CreateMessageBody,
    makes=CreateSms,
    refuses=(Code.IDEMPOTENCY_KEY_REUSED, Code.SERVICE_UNAVAILABLE),
    status=201,
    message="Message queued",
)
def create_message(request: CreateSms, context: RequestContext) -> EndpointReply[SmsView]:
    """Send a text to a phone, once for each reference."""
    created = services().sms.create(request, context)
    if created.replayed:
        return EndpointReply(created.message, 200, "Message already queued", {"Idempotent-Replayed": "true"})
    return EndpointReply(created.message, headers={"Location": f"/api/messages/{created.message.message_id}"})


@messages.call(
    "GET",
    "/api/messages",
    needs="messages:read",
    query=ListMessagesQuery,
    makes=ListSms,
    message="Messages",
)
def list_messages(request: ListSms, context: RequestContext) -> Page[SmsView]:
    """The client's messages, newest first."""
    return services().sms.list(request, context)


@messages.call(
    "GET",
    "/api/messages/<message_id>",
    needs="messages:read",
    makes=NameSms,
    refuses=(Code.NOT_FOUND,),
    message="Message",
)
def get_message(request: NameSms, context: RequestContext) -> SmsView:
    """One message, and whether it was delivered."""
    return services().sms.get(request, context)
