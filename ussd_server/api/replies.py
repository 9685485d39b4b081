"""Replies in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import orjson
from flask import Response
from werkzeug.datastructures import Headers

_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class _JsonResponse(Response):
    """A response that is complete when it is made."""

    def get_wsgi_headers(self, environ: Any) -> Headers:
        """Return the headers themselves: werkzeug would copy each one, and look for some to correct."""
        return self.headers


def json_response(status: int, envelope: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """Return a response with an envelope."""
    return _JsonResponse(orjson.dumps(envelope), _STATUS_LINES[status], headers, content_type="application/json")
