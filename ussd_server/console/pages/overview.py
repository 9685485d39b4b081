"""The first page, and what answers addresses that do not exist."""

from __future__ import annotations

from typing import Any

from flask import redirect, render_template, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.context import RequestContext
from ussd_server.status import Code, ServiceError


@console.page("GET", "")
def show_overview(context: RequestContext) -> str:
    """How the client's business goes now, and what to do next."""
    keys = services().clients.key_reader.list(context)
    return render_template("console/overview.html", key_count=len(keys))


@console.page("GET", "/", is_public=True)
def leave_out_slash(_: RequestContext) -> Any:
    """The overview under its usual address."""
    return redirect(url_for("console.show_overview"))


@console.page("GET", "/<path:anything>")
def refuse_unknown_page(_: RequestContext, anything: str) -> str:  # noqa: ARG001 - the unknown address
    """Refuse an address that does not exist."""
    raise ServiceError(Code.NOT_FOUND, "There is no page at this address.")


@console.page("POST", "/<path:anything>")
def refuse_unknown_form(_: RequestContext, anything: str) -> str:  # noqa: ARG001 - the unknown address
    """Refuse a form for an address that does not exist."""
    raise ServiceError(Code.NOT_FOUND, "There is no page at this address.")
