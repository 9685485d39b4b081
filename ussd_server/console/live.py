"""Pages with a part that refreshes by itself."""

from __future__ import annotations

from typing import Any

from flask import Response, render_template, request


def show_live(page: str, part: str, *, reloads: bool = False, **values: Any) -> Response:
    """The template `page`, which includes `part`; for the request that refreshes the part, the part alone.

    The part polls the address of its page. With `reloads` the browser then loads the whole page anew.
    """
    is_refreshed = "X-Console-Poll" in request.headers
    response = Response(render_template(part if is_refreshed else page, **values))
    if is_refreshed and reloads:
        response.headers["HX-Refresh"] = "true"
    return response
