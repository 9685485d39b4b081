"""Key management: logins without credentials, everything else by an access token."""

from __future__ import annotations

from schemas.clients import (
    CreateApiKeyBody,
    DeleteApiKeysBody,
    GetKeyUsageQuery,
    ListAuditEventsQuery,
    ListRequestsQuery,
    LogInBody,
    LogOutBody,
    RefreshLoginBody,
    UpdateApiKeyBody,
)
from schemas.fields import RotateSecretBody
from ussd_server.api.endpoints import (
    ApiBlueprint,
    EndpointReply,
    allow_anyone,
    authenticate_access_token,
    authenticate_api_key,
    created,
)
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.audit.messages import AuditEventView, ListAuditEvents
from ussd_server.services.clients.keys import messages
from ussd_server.services.clients.messages import LogIn, LoginView, ServiceIdentifier
from ussd_server.services.request_log.messages import (
    GetKeyUsage,
    KeyUsageView,
    ListRequests,
    RequestDetail,
    RequestView,
)
from ussd_server.status import Code
from ussd_server.wire import DeletionResult, Page

_MAY_NOT_DELETE = "Insufficient permissions to delete this API key"
_UNLESS_KNOWN = (Code.INVALID_CREDENTIALS, Code.RATE_LIMIT_EXCEEDED)

own_key = ApiBlueprint(
    "own_key", authenticate_api_key, "The calling key", "What the key of a call may do, and what is left of its limits."
)
logins = ApiBlueprint("logins", allow_anyone, "Signing in", "Logins of users, for the management endpoints.")
clients = ApiBlueprint(
    "clients",
    authenticate_access_token,
    "API keys",
    "API keys, service identifier and audit events of a client, for users.",
)


@own_key.call("GET", "/api/key", message="API key")
def get_own_key(context: RequestContext) -> messages.OwnKey:
    """Show a key what it may do, and what is left of its limits."""
    return services().key_reader.own(context)


@logins.call("POST", "/api/clients/login", takes=LogInBody, refuses=_UNLESS_KNOWN, message="Login successful")
def log_in(request: LogIn, context: RequestContext) -> LoginView:
    """Sign in."""
    return services().logins.begin(request, context)


@logins.call(
    "POST", "/api/clients/token/refresh", takes=RefreshLoginBody, refuses=_UNLESS_KNOWN, message="Token refreshed"
)
def refresh_login(refresh_token: str, context: RequestContext) -> LoginView:
    """Trade a refresh token for new tokens; it works once."""
    return services().logins.refresh(refresh_token, context)


@clients.call("POST", "/api/clients/logout", takes=LogOutBody, message="Logged out")
def log_out(everywhere: bool, context: RequestContext) -> None:
    """End this login, or every login of the same person."""
    services().logins.end(everywhere, context)


@clients.call("GET", "/api/clients/service-identifier", needs="service_identifier:read", message="Service identifier")
def show_service_identifier(context: RequestContext) -> ServiceIdentifier:
    """Name the client to the provider's support."""
    return services().clients.service_identifier(context)


@clients.call("GET", "/api/clients/api-keys", needs="api_keys:list", message="API keys list")
def list_api_keys(context: RequestContext) -> tuple[messages.ApiKeyView, ...]:
    """List all API keys of the client."""
    return services().api_keys.list(context)


@clients.call(
    "POST",
    "/api/clients/api-keys",
    takes=CreateApiKeyBody,
    names_field=True,
    needs="api_keys:create",
    status=201,
    message="API Key created successfully",
)
def create_api_key(request: messages.CreateApiKey, context: RequestContext) -> EndpointReply[messages.ApiKeyView]:
    """Create an API key."""
    key = services().api_keys.create(request, context)
    return created(key, f"/api/clients/api-keys/{key.id}")


@clients.call("GET", "/api/clients/api-keys/<api_key_id>", needs="api_keys:list", message="API Key")
def get_api_key(api_key_id: str, context: RequestContext) -> messages.ApiKeyRecord:
    """Show one API key, with everything that is known about it."""
    return services().key_reader.get(api_key_id, context)


@clients.call(
    "PATCH",
    "/api/clients/api-keys/<api_key_id>",
    takes=UpdateApiKeyBody,
    needs="api_keys:rotate",
    names_field=True,
    message="API Key updated successfully",
)
def update_api_key(request: messages.UpdateApiKey, context: RequestContext) -> messages.ApiKeyRecord:
    """Change an API key without a new secret, in every process from the reply on."""
    return services().api_keys.update(request, context)


@clients.call(
    "GET",
    "/api/clients/api-keys/<api_key_id>/usage",
    query=GetKeyUsageQuery,
    needs="api_keys:list",
    message="API Key usage",
)
def get_api_key_usage(request: GetKeyUsage, context: RequestContext) -> KeyUsageView:
    """Show how often a key called what; exact once a day has ended."""
    return services().request_log.usage(request, context)


@clients.call("GET", "/api/clients/requests", query=ListRequestsQuery, needs="api_keys:list", message="Requests")
def list_requests(request: ListRequests, context: RequestContext) -> Page[RequestView]:
    """List the requests of the client that were refused or changed something, newest first."""
    return services().request_log.list(request, context)


@clients.call("GET", "/api/clients/requests/<request_id>", needs="api_keys:list", message="Request")
def get_request(request_id: str, context: RequestContext) -> RequestDetail:
    """Show one request, with the body of a refused one."""
    return services().request_log.get(request_id, context)


@clients.call(
    "POST",
    "/api/clients/api-keys/<api_key_id>/rotate",
    takes=RotateSecretBody,
    names_field=True,
    needs="api_keys:rotate",
    message="API Key rotated successfully",
)
def rotate_api_key(request: messages.RotateApiKey, context: RequestContext) -> messages.RotatedApiKeyView:
    """Give an API key a new secret."""
    return services().api_keys.rotate(request, context)


@clients.call(
    "DELETE",
    "/api/clients/api-keys/<api_key_id>",
    needs="api_keys:delete",
    refusal=_MAY_NOT_DELETE,
    message="API Key deleted successfully",
)
def delete_api_key(api_key_id: str, context: RequestContext) -> DeletionResult:
    """Delete an API key for ever."""
    return services().api_keys.delete(api_key_id, context)


@clients.call(
    "DELETE",
    "/api/clients/api-keys/bulk",
    takes=DeleteApiKeysBody,
    needs="api_keys:delete",
    refusal=_MAY_NOT_DELETE,
    refuses=(Code.NOT_FOUND,),
    message="API Keys deleted successfully",
)
def delete_api_keys(request: messages.DeleteApiKeys, context: RequestContext) -> EndpointReply[messages.BulkDeletion]:
    """Delete many API keys for ever."""
    return _bulk_reply(services().api_keys.delete_many(request, context))


@clients.call(
    "POST",
    "/api/clients/api-keys/bulk-delete",
    takes=DeleteApiKeysBody,
    needs="api_keys:delete",
    refusal=_MAY_NOT_DELETE,
    refuses=(Code.NOT_FOUND,),
    message="API Keys deleted successfully",
)
def delete_api_keys_by_post(
    request: messages.DeleteApiKeys, context: RequestContext
) -> EndpointReply[messages.BulkDeletion]:
    """Delete many API keys for ever, for clients that cannot send a body with DELETE."""
    return _bulk_reply(services().api_keys.delete_many(request, context))


@clients.call(
    "GET", "/api/clients/audit-events", query=ListAuditEventsQuery, needs="audit_events:read", message="Audit events"
)
def list_audit_events(request: ListAuditEvents, context: RequestContext) -> Page[AuditEventView]:
    """Show who did what, and every login."""
    return services().audit.list(request, context)


def _bulk_reply(outcome: messages.BulkDeletion) -> EndpointReply[messages.BulkDeletion]:
    if not outcome.failed:
        return EndpointReply(outcome)
    return EndpointReply(outcome, message=f"{outcome.deleted_count} of {outcome.requested} API Keys deleted")
