"""The one path and its view."""

from __future__ import annotations

from typing import Any

from django.urls import path
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from benchmarks.peers import common


class Door(APIView):
    """The door alone, with the headers that the framework leaves to its users."""

    def get_throttles(self) -> list[Any]:
        """The throttles of this call, kept for the headers."""
        self._throttles = super().get_throttles()
        return self._throttles

    def get(self, _: Request) -> Response:
        """What the bare application answers."""
        return Response(common.success({}, "Done"))

    def finalize_response(self, *arguments: Any, **named: Any) -> Response:
        """Add the headers of the tighter limit."""
        response = super().finalize_response(*arguments, **named)
        counted = [throttle for throttle in getattr(self, "_throttles", ()) if hasattr(throttle, "history")]
        if counted:
            tighter = min(counted, key=lambda throttle: throttle.num_requests - len(throttle.history))
            response["X-RateLimit-Limit"] = tighter.num_requests
            response["X-RateLimit-Remaining"] = max(0, tighter.num_requests - len(tighter.history))
            response["X-RateLimit-Reset"] = int(tighter.duration)
        return response


urlpatterns = [path("bench/door", Door.as_view())]
