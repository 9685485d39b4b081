"""The door: who calls by the API-key package, how often by the framework's throttles."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.throttling import SimpleRateThrottle

from benchmarks.peers import common
from benchmarks.peers.django_peer.models import ClientKey

if TYPE_CHECKING:
    from rest_framework.views import APIView

_REFUSALS = {401: common.INVALID, 403: common.DISABLED, 429: common.LIMITED}


class KeyAuthentication(BaseAuthentication):
    """Tells a caller by its key and its secret, which are the two halves of the package's key."""

    def authenticate(self, request: Request) -> tuple[Any, ClientKey]:
        """The client and its key."""
        shown = f"{request.headers.get('x-api-key', '')}.{request.headers.get('x-api-secret', '')}"
        try:
            key = ClientKey.objects.get_from_key(shown)
        except ClientKey.DoesNotExist:
            raise exceptions.AuthenticationFailed from None
        return key.client, key

    def authenticate_header(self, _: Request) -> str:
        """What makes the refusal a 401."""
        return "x-api-key"


class HasKey(BasePermission):
    """Lets through keys that are active; notes their use."""

    def has_permission(self, request: Request, _: APIView) -> bool:
        """Whether the key and its client may call."""
        key = request.auth
        if key is None or key.has_expired or not key.client.is_active:
            return False
        this_moment = timezone.now()
        if key.last_used_at is None or key.last_used_at <= this_moment - timedelta(seconds=common.NOTE_SECONDS):
            ClientKey.objects.filter(pk=key.pk).update(last_used_at=this_moment)
        return True


class KeyThrottle(SimpleRateThrottle):
    """Counts calls by key."""

    def get_cache_key(self, request: Request, _: APIView) -> str:
        """One count for each key."""
        return self.cache_format % {"scope": self.scope, "ident": request.auth.prefix}


class MinuteThrottle(KeyThrottle):
    """The limit of a minute."""

    scope = "minute"


class HourThrottle(KeyThrottle):
    """The limit of an hour."""

    scope = "hour"


def refuse(error: Exception, _: dict[str, Any]) -> Response | None:
    """A refusal in the API's words."""
    if not isinstance(error, exceptions.APIException):
        return None
    status, code, message = _REFUSALS[error.status_code]
    return Response(common.failure(code, message), status)
