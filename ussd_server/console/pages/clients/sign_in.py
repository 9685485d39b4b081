"""Signing in and out, the language of pages, and the link for a person who forgot the password."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from flask import current_app, flash, redirect, render_template, request, session, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import LANGUAGE_COOKIE, NO_PAGE, console
from ussd_server.console.forms import done
from ussd_server.console.session import kept_form, remember
from ussd_server.context import CallerKind, RequestContext
from ussd_server.services.clients.messages import LogIn
from ussd_server.status import Code, ServiceError

# A path of the console: no other host, no second slash, no backslash.
_OWN_PATH = re.compile(r"/console(?:/(?![/\\])[^\\\s]*|\?[^\\\s]*)?")
_YEAR_SECONDS = 365 * 24 * 3600
_WRONG_LOGIN = (Code.INVALID_CREDENTIALS, Code.RATE_LIMIT_EXCEEDED)
_OPERATORS_FORM: Any = {"form_on": "show_operator_sign_in", "refusals": _WRONG_LOGIN}


@console.page("GET", "/sign-in", who="public")
@console.page("GET", "/operator/sign-in", who="public", name="show_operator_sign_in")
def show_sign_in(_: RequestContext) -> str:
    """The form, with what was typed but the secrets."""
    return render_template(
        "console/sign_in.html",
        next=request.values.get("next", ""),
        kept=request.form.get("kept", ""),
        email=request.form.get("email", ""),
        for_operators=_is_for_operators(),
        is_operator_admitted=services().operator_logins.is_admitted(request.remote_addr or ""),
    )


@console.page("POST", "/sign-in", who="public", form_on="show_sign_in", refusals=_WRONG_LOGIN)
@console.page("POST", "/operator/sign-in", who="public", name="sign_operator_in", **_OPERATORS_FORM)
def sign_in(context: RequestContext) -> Any:
    """Check password and code, and go on where the person or the operator wanted to go."""
    form, logins = request.form, services().operator_logins
    wanted = LogIn(form.get("email", "").strip(), form.get("password", ""), form.get("code", ""))
    if _is_for_operators():
        login_id = logins.begin(wanted, context)
        remember(operator_login=login_id, user=logins.authenticate(login_id, context).caller.user_id or "")
        return _go_on("console.show_operator_overview")
    login_id = services().logins.begin_for_console(wanted, context)
    remember(login=login_id, user=services().auth.authenticate_login(login_id).caller.user_id or "")
    return _go_on("console.show_overview")


@console.page("POST", "/sign-out", who="person", before_factor=True)
def sign_out(context: RequestContext) -> Any:
    everywhere = request.form.get("everywhere") == "1"
    is_operator = context.caller.kind is CallerKind.OPERATOR
    logins = services().operator_logins if is_operator else services().logins
    logins.end(everywhere, context)
    session.clear()
    view = "show_operator_sign_in" if is_operator else "show_sign_in"
    return done("You are signed out everywhere." if everywhere else "You are signed out.", view)


@console.page("POST", "/language", who="public")
def choose_language(context: RequestContext) -> Any:
    """Show the pages in another language from now on, beginning with the one that the person came from."""
    code = request.form.get("language", "")
    services().mails.choose_language(code, context)
    response = redirect(_page_before() or url_for("console.show_overview"), 303)
    response.set_cookie(
        LANGUAGE_COOKIE, code, _YEAR_SECONDS, path="/console", secure=request.is_secure, httponly=True, samesite="Lax"
    )
    return response


def _is_for_operators() -> bool:
    """Whether the form is that of operators. Raises NOT_FOUND for it at an address that admits none."""
    if not request.path.startswith("/console/operator/"):
        return False
    if not services().operator_logins.is_admitted(request.remote_addr or ""):
        raise ServiceError(Code.NOT_FOUND, NO_PAGE)
    return True


def _go_on(first_page: str) -> Any:
    """Offer the form that was sent before the sign-in, or go to the page that was asked for."""
    kept, wanted = request.form.get("kept", ""), request.form.get("next", "")
    if kept:
        if form_of_before := kept_form(kept):
            return render_template("console/send_again.html", **form_of_before)
        flash("You are signed in. The form that you sent before could not be kept; please fill it in again.", "warn")
    return redirect(wanted if _OWN_PATH.fullmatch(wanted) else url_for(first_page), 303)


@console.page("GET", "/forgotten-password", who="public")
def show_forgotten_password(_: RequestContext) -> str:
    _require_mail()
    return render_template("console/mails/forgotten_password.html", email=request.form.get("email", ""))


@console.page(
    "POST",
    "/forgotten-password",
    who="public",
    form_on="show_forgotten_password",
    refusals=(Code.RATE_LIMIT_EXCEEDED,),
)
def request_password_link(context: RequestContext) -> object:
    """Have a link mailed. The reply is the same for every address."""
    _require_mail()
    services().password_links.request(request.form.get("email", "").strip(), context)
    return done("If the address is known, a link is on its way. It works once, for an hour.", "show_sign_in")


def _require_mail() -> None:
    if not services().mails.is_on:
        raise ServiceError(Code.NOT_FOUND, NO_PAGE)


def _page_before() -> str:
    """The page with the form; empty for one without an address of its own, such as a form with a mistake."""
    address, urls = urlsplit(request.referrer or ""), current_app.create_url_adapter(request)
    if urls is None or not _OWN_PATH.fullmatch(address.path):
        return ""
    if urls.match(address.path, "GET")[0] == "console.refuse_unknown_page":
        return ""
    return f"{address.path}?{address.query}" if address.query else address.path
