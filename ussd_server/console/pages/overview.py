"""The first page, and what answers addresses that do not exist."""

from __future__ import annotations

from typing import Any

from flask import redirect, render_template, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import NO_PAGE, console
from ussd_server.context import CallerKind, RequestContext
from ussd_server.status import Code, ServiceError


@console.page("GET", "", who="person")
def show_overview(context: RequestContext) -> Any:
    """How the client's business goes now, and what to do next."""
    if context.caller.kind is CallerKind.OPERATOR:
        return redirect(url_for("console.show_operator_overview"))
    keys = services().clients.key_reader.list(context)
    return render_template("console/overview.html", key_count=len(keys))


@console.page("GET", "/", who="public")
def leave_out_slash(_: RequestContext) -> Any:
    """The overview under its usual address."""
    return redirect(url_for("console.show_overview"))


@console.page("GET", "/<path:anything>", who="person")
def refuse_unknown_page(_: RequestContext, anything: str) -> str:  # noqa: ARG001 - the unknown address
    """Refuse an address that does not exist."""
    raise ServiceError(Code.NOT_FOUND, NO_PAGE)


@console.page("POST", "/<path:anything>", who="person")
def refuse_unknown_form(_: RequestContext, anything: str) -> str:  # noqa: ARG001 - the unknown address
    """Refuse a form for an address that does not exist."""
    raise ServiceError(Code.NOT_FOUND, NO_PAGE)
