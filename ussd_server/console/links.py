"""Pages of objects: their addresses by kind, and an operator's request on behalf of a client."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from flask import g, url_for

from ussd_server.api.requests import services
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.services.clients.messages import ClientView

_pages: dict[tuple[str, str], tuple[str, str, str | None]] = {}
"""An object's page, by who sees it and the kind of object: its endpoint, the variable of its path, the permission."""


def add_page(kind: str, who: str, endpoint: str, path: str, needs: str | None) -> None:
    """State that the page at `path`, which has one variable, shows objects of a kind to clients or to operators.

    `needs` is the permission that the page needs, None where every role may see it.
    """
    (variable,) = re.findall("<(.+?)>", path)
    _pages[who, kind] = (endpoint, variable, needs)


def link_to(kind: str, object_id: str | None) -> str | None:
    """The address of an object's page; None for no object and where the person who signed in has no such page."""
    page = _pages.get(("operator" if g.person.is_operator else "client", kind))
    if page is None or not object_id:
        return None
    endpoint, variable, needs = page
    if needs is not None and not RequestContext(g.person.caller, "").may(needs):
        return None
    variables: dict[str, Any] = {variable: object_id}
    return url_for(f"console.{endpoint}", **variables)


def who(*names: str | None) -> str:
    """People, operators and keys as every page names them: `you` for the reader, several with commas."""
    reader = g.person.email
    return ", ".join(gettext("you") if name == reader else name for each in names if each for name in each.split(", "))


def public_address(view: str, **variables: Any) -> str:
    """The whole address of a view, to be copied: on `USSD_PUBLIC_URL`, else on the host that the browser asked for."""
    public_url = services().settings.public_url
    if public_url is None:
        return url_for(view, **variables, _external=True)
    return public_url + url_for(view, **variables)


def operators_view(view: str) -> str:
    return f"{view}_for_operators"


def own_view(view: str) -> str:
    """The endpoint of a client's page; for an operator, of the same page among those of operators."""
    return f"console.{operators_view(view) if g.person.is_operator else view}"


def to(view: str, **variables: Any) -> str:
    """The address of a page of the console."""
    return url_for(f"console.{view}", **variables)


def to_own(view: str, **variables: Any) -> str:
    """The address of a client's page; for an operator, of the same page among those of operators."""
    return url_for(own_view(view), **variables)


def acting_for(client: ClientView, context: RequestContext) -> RequestContext:
    """The operator's request, on behalf of a client."""
    return replace(context, caller=replace(context.caller, client_id=client.client_id))
