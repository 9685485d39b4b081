"""The language of pages: what the person chose, else what this browser chose before, else what it asks for."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from flask import current_app, redirect, request, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.pages.clients.sign_in import OWN_PATH
from ussd_server.context import RequestContext
from ussd_server.languages import ENGLISH, current_language, languages, use_language

_COOKIE = "language"
_YEAR_SECONDS = 365 * 24 * 3600


@console.before_request
def _begin() -> None:
    """Use the language of the browser, until the login is read, which may name another one."""
    use_language(request.cookies.get(_COOKIE) or request.accept_languages.best_match(languages()))


@console.teardown_request
def _end(_: BaseException | None) -> None:
    """Use English again: the next request of this thread may be one of the API."""
    use_language(ENGLISH)


@console.context_processor
def _for_templates() -> dict[str, Any]:
    return {"page_language": current_language(), "page_languages": languages()}


@console.page("POST", "/language", who="public")
def choose_language(context: RequestContext) -> Any:
    """Show the pages in another language from now on, beginning with the one that the person came from."""
    code = request.form.get("language", "")
    services().mails.choose_language(code, context)
    response = redirect(_page_before() or url_for("console.show_overview"), 303)
    response.set_cookie(
        _COOKIE, code, _YEAR_SECONDS, path="/console", secure=request.is_secure, httponly=True, samesite="Lax"
    )
    return response


def _page_before() -> str:
    """The page with the form; empty for one without an address of its own, such as a form with a mistake."""
    address, urls = urlsplit(request.referrer or ""), current_app.create_url_adapter(request)
    if urls is None or not OWN_PATH.fullmatch(address.path):
        return ""
    if urls.match(address.path, "GET")[0] == "console.refuse_unknown_page":
        return ""
    return f"{address.path}?{address.query}" if address.query else address.path
