"""Key management: logins without credentials, everything else by an access token."""

from __future__ import annotations

from schemas.clients import (
    ApiKeyRecord,
    AuditEventPageRecord,
    BulkDeletionRecord,
    CreateApiKeyBody,
    DeleteApiKeysBody,
    ListAuditEventsQuery,
    LogInBody,
    LoginRecord,
    LogOutBody,
    RefreshLoginBody,
    RotatedApiKeyRecord,
    ServiceIdentifierRecord,
)
from schemas.shared import DeletionResultRecord, RotateSecretBody
from ussd_server.api.endpoints import ApiBlueprint, EndpointReply, allow_anyone, authenticate_access_token
from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.services.audit.messages import AuditEventPage, ListAuditEvents
from ussd_server.services.clients.key_messages import (
    ApiKeyView,
    BulkDeletion,
    CreateApiKey,
    DeleteApiKey,
    DeleteApiKeys,
    DeletionResult,
    RotateApiKey,
    RotatedApiKeyView,
)
from ussd_server.services.clients.messages import LogIn, LoginView, LogOut, RefreshLogin, ServiceIdentifier
from ussd_server.status import Code

_MAY_NOT_DELETE = "Insufficient permissions to delete this API key"
_UNLESS_KNOWN = (Code.INVALID_CREDENTIALS, Code.RATE_LIMIT_EXCEEDED)

logins = ApiBlueprint("logins", allow_anyone)
clients = ApiBlueprint("clients", authenticate_access_token)


@logins.call(
    "POST", "/api/clients/login",
    makes=LogIn, takes=LogInBody, gives=LoginRecord(), refuses=_UNLESS_KNOWN, message="Login successful",
)  # fmt: skip
def log_in(request: LogIn, context: RequestContext) -> LoginView:
    """Sign in."""
    return services().logins.begin(request, context)


@logins.call(
    "POST", "/api/clients/token/refresh",
    makes=RefreshLogin, takes=RefreshLoginBody, gives=LoginRecord(), refuses=_UNLESS_KNOWN, message="Token refreshed",
)  # fmt: skip
def refresh_login(request: RefreshLogin, context: RequestContext) -> LoginView:
    """Trade a refresh token for new tokens; it works once."""
    return services().logins.refresh(request, context)


@clients.call("POST", "/api/clients/logout", makes=LogOut, takes=LogOutBody, message="Logged out")
def log_out(request: LogOut, context: RequestContext) -> None:
    """End this login, or every login of the same person."""
    services().logins.end(request, context)


@clients.call(
    "GET", "/api/clients/service-identifier",
    gives=ServiceIdentifierRecord(), needs="service_identifier:read", message="Service identifier",
)  # fmt: skip
def show_service_identifier(context: RequestContext) -> ServiceIdentifier:
    """Name the client to the provider's support."""
    return services().clients.service_identifier(context)


@clients.call(
    "GET", "/api/clients/api-keys",
    gives=ApiKeyRecord(many=True), needs="api_keys:list", message="API keys list",
)  # fmt: skip
def list_api_keys(context: RequestContext) -> tuple[ApiKeyView, ...]:
    """List all API keys of the client."""
    return services().api_keys.list(context)


@clients.call(
    "POST", "/api/clients/api-keys",
    makes=CreateApiKey, takes=CreateApiKeyBody, gives=ApiKeyRecord(), needs="api_keys:create",
    status=201, message="API Key created successfully",
)  # fmt: skip
def create_api_key(request: CreateApiKey, context: RequestContext) -> EndpointReply:
    """Create an API key."""
    key = services().api_keys.create(request, context)
    return EndpointReply(key, headers={"Location": f"/api/clients/api-keys/{key.id}"})


@clients.call(
    "POST", "/api/clients/api-keys/<api_key_id>/rotate",
    makes=RotateApiKey, takes=RotateSecretBody, gives=RotatedApiKeyRecord(), needs="api_keys:rotate",
    message="API Key rotated successfully",
)  # fmt: skip
def rotate_api_key(request: RotateApiKey, context: RequestContext) -> RotatedApiKeyView:
    """Give an API key a new secret."""
    return services().api_keys.rotate(request, context)


@clients.call(
    "DELETE", "/api/clients/api-keys/<api_key_id>",
    makes=DeleteApiKey, gives=DeletionResultRecord(), needs="api_keys:delete", refusal=_MAY_NOT_DELETE,
    message="API Key deleted successfully",
)  # fmt: skip
def delete_api_key(request: DeleteApiKey, context: RequestContext) -> DeletionResult:
    """Delete an API key for ever."""
    return services().api_keys.delete(request, context)


@clients.call(
    "DELETE", "/api/clients/api-keys/bulk",
    makes=DeleteApiKeys, takes=DeleteApiKeysBody, gives=BulkDeletionRecord(),
    needs="api_keys:delete", refusal=_MAY_NOT_DELETE, refuses=(Code.NOT_FOUND,),
    message="API Keys deleted successfully",
)  # fmt: skip
def delete_api_keys(request: DeleteApiKeys, context: RequestContext) -> EndpointReply:
    """Delete many API keys for ever."""
    return _bulk_reply(services().api_keys.delete_many(request, context))


@clients.call(
    "POST", "/api/clients/api-keys/bulk-delete",
    makes=DeleteApiKeys, takes=DeleteApiKeysBody, gives=BulkDeletionRecord(),
    needs="api_keys:delete", refusal=_MAY_NOT_DELETE, refuses=(Code.NOT_FOUND,),
    message="API Keys deleted successfully",
)  # fmt: skip
def delete_api_keys_by_post(request: DeleteApiKeys, context: RequestContext) -> EndpointReply:
    """Delete many API keys for ever, for clients that cannot send a body with DELETE."""
    return _bulk_reply(services().api_keys.delete_many(request, context))


@clients.call(
    "GET", "/api/clients/audit-events",
    makes=ListAuditEvents, query=ListAuditEventsQuery, gives=AuditEventPageRecord(),
    needs="audit_events:read", message="Audit events",
)  # fmt: skip
def list_audit_events(request: ListAuditEvents, context: RequestContext) -> AuditEventPage:
    """Show who did what, and every login."""
    return services().audit.list(request, context)


def _bulk_reply(outcome: BulkDeletion) -> EndpointReply:
    if not outcome.failed:
        return EndpointReply(outcome)
    return EndpointReply(outcome, message=f"{outcome.deleted_count} of {outcome.requested} API Keys deleted")
