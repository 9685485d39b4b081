"""Endpoints for messages (SMS), and for the settings of clients."""

from __future__ import annotations

from schemas.messages import CreateMessageBody, ListMessagesQuery, UpdateClientSettingsBody
from ussd_server.api.endpoints import (
    ApiBlueprint,
    EndpointReply,
    authenticate_access_token,
    authenticate_api_key,
    created,
)
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.clients.messages import ClientSettings, UpdateClientSettings
from ussd_server.services.sms.messages import CreateSms, ListSms, SmsView
from ussd_server.status import Code
from ussd_server.wire import Page

messages = ApiBlueprint(
    "messages", authenticate_api_key, "Messages", "Texts to phones (SMS), and whether they were delivered."
)
client_settings = ApiBlueprint(
    "client_settings",
    authenticate_access_token,
    "Settings",
    "What a client sets for itself, by its users: texts of receipts.",
)


@messages.call(
    "POST",
    "/api/messages",
    needs="messages:write",
    takes=CreateMessageBody,
    refuses=(Code.IDEMPOTENCY_KEY_REUSED,),
    status=201,
    message="Message queued",
)
def create_message(request: CreateSms, context: RequestContext) -> EndpointReply[SmsView]:
    """Send a text to a phone, once for each reference."""
    made = services().sms.create(request, context)
    path = f"/api/messages/{made.message.message_id}"
    return created(made.message, path, replayed=made.replayed, again="Message already queued")


@messages.call("GET", "/api/messages", needs="messages:read", query=ListMessagesQuery, message="Messages")
def list_messages(request: ListSms, context: RequestContext) -> Page[SmsView]:
    """The client's messages, newest first."""
    return services().sms.list(request, context)


@messages.call("GET", "/api/messages/<message_id>", needs="messages:read", message="Message")
def get_message(message_id: str, context: RequestContext) -> SmsView:
    """One message, and whether it was delivered."""
    return services().sms.get(message_id, context)


@client_settings.call("GET", "/api/clients/settings", needs="settings:read", message="Settings")
def get_client_settings(context: RequestContext) -> ClientSettings:
    """What the client has set for itself."""
    return services().client_settings.get(context)


@client_settings.call(
    "PATCH",
    "/api/clients/settings",
    needs="settings:write",
    takes=UpdateClientSettingsBody,
    names_field=True,
    message="Settings updated successfully",
)
def update_client_settings(request: UpdateClientSettings, context: RequestContext) -> ClientSettings:
    """Change the texts of receipts and the approval rules; what is left out stays."""
    return services().client_settings.update(request, context)
