"""Signing in and out, and the link for a person who forgot the password."""

from __future__ import annotations

import re
from typing import Any

from flask import Response, flash, redirect, render_template, request, session, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import NO_PAGE, TOO_OLD, console
from ussd_server.console.session import kept_form, remember
from ussd_server.context import CallerKind, RequestContext
from ussd_server.services.clients.messages import LogIn
from ussd_server.status import Code, ServiceError

# A path of the console: no other host, no second slash, no backslash.
OWN_PATH = re.compile(r"/console(?:/(?![/\\])[^\\\s]*|\?[^\\\s]*)?")


@console.page("GET", "/sign-in", who="public")
def show_sign_in(_: RequestContext) -> str:
    """The sign-in form."""
    return _form(request.args.get("next", ""))


@console.page("POST", "/sign-in", who="public", stale_form=lambda: _fresh_form())
def sign_in(context: RequestContext) -> Any:
    """Check password and code, and go on where the person wanted to go."""
    form = request.form
    try:
        login_id = services().logins.begin_for_console(
            LogIn(form.get("email", "").strip(), form.get("password", ""), form.get("code", "")), context
        )
    except ServiceError as error:
        return _refused(error)
    remember(login=login_id, user=services().auth.authenticate_login(login_id).caller.user_id or "")
    return _go_on("console.show_overview")


@console.page("GET", "/operator/sign-in", who="public")
def show_operator_sign_in(context: RequestContext) -> str:
    """The sign-in form of operators."""
    _require_operators_address(context)
    return _form(request.args.get("next", ""), for_operators=True)


@console.page("POST", "/operator/sign-in", who="public", stale_form=lambda: _fresh_operators_form())
def sign_operator_in(context: RequestContext) -> Any:
    """Check password and code, and go on where the operator wanted to go."""
    _require_operators_address(context)
    form, logins = request.form, services().operator_logins
    wanted = LogIn(form.get("email", "").strip(), form.get("password", ""), form.get("code", ""))
    try:
        login_id = logins.begin(wanted, context)
    except ServiceError as error:
        return _refused(error, for_operators=True)
    remember(operator_login=login_id, user=logins.authenticate(login_id, context).caller.user_id or "")
    return _go_on("console.show_operator_overview")


@console.page("POST", "/sign-out", who="person", before_factor=True)
def sign_out(context: RequestContext) -> Any:
    """End this login, or every login of the person."""
    everywhere = request.form.get("everywhere") == "1"
    is_operator = context.caller.kind is CallerKind.OPERATOR
    logins = services().operator_logins if is_operator else services().logins
    logins.end(everywhere, context)
    session.clear()
    flash("You are signed out everywhere." if everywhere else "You are signed out.", "good")
    return redirect(url_for("console.show_operator_sign_in" if is_operator else "console.show_sign_in"), 303)


def _require_operators_address(context: RequestContext) -> None:
    if not services().operator_logins.is_admitted(context.address):
        raise ServiceError(Code.NOT_FOUND, NO_PAGE)


def _form(next_path: str, *, for_operators: bool = False, **shown: Any) -> str:
    return render_template(
        "console/sign_in.html",
        next=next_path,
        for_operators=for_operators,
        is_mail_on=services().mails.is_on,
        is_operator_admitted=services().operator_logins.is_admitted(request.remote_addr or ""),
        **shown,
    )


def _fresh_form() -> Response:
    """The form again, with a token of this session."""
    return _again(TOO_OLD, for_operators=False)


def _fresh_operators_form() -> Response:
    if not services().operator_logins.is_admitted(request.remote_addr or ""):
        raise ServiceError(Code.NOT_FOUND, NO_PAGE)
    return _again(TOO_OLD, for_operators=True)


def _refused(error: ServiceError, *, for_operators: bool = False) -> Response:
    """The form again, with what was typed but the secrets."""
    if error.code not in (Code.INVALID_CREDENTIALS, Code.RATE_LIMIT_EXCEEDED):
        raise error
    return _again(error, for_operators=for_operators)


def _again(error: ServiceError, *, for_operators: bool) -> Response:
    form = request.form
    shown = _form(
        form.get("next", ""),
        for_operators=for_operators,
        kept=form.get("kept", ""),
        email=form.get("email", ""),
        error=error,
    )
    response = Response(shown, status=error.code.http_status)
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response


def _go_on(first_page: str) -> Any:
    """Offer the form that was sent before the sign-in, or go to the page that was asked for."""
    kept, wanted = request.form.get("kept", ""), request.form.get("next", "")
    if kept:
        if form_of_before := kept_form(kept):
            return render_template("console/send_again.html", **form_of_before)
        flash("You are signed in. The form that you sent before could not be kept; please fill it in again.", "warn")
    return redirect(wanted if OWN_PATH.fullmatch(wanted) else url_for(first_page), 303)


@console.page("GET", "/forgotten-password", who="public")
def show_forgotten_password(_: RequestContext) -> str:
    """The form that asks for the address."""
    _require_mail()
    return _link_form("", None)


@console.page("POST", "/forgotten-password", who="public", stale_form=lambda: _ask_again(TOO_OLD))
def request_password_link(context: RequestContext) -> object:
    """Have a link mailed. The reply is the same for every address."""
    _require_mail()
    try:
        services().password_links.request(request.form.get("email", "").strip(), context)
    except ServiceError as error:
        return _ask_again(error)
    flash("If the address is known, a link is on its way. It works once, for an hour.", "good")
    return redirect(url_for("console.show_sign_in"), 303)


def _require_mail() -> None:
    if not services().mails.is_on:
        raise ServiceError(Code.NOT_FOUND, NO_PAGE)


def _link_form(email: str, error: ServiceError | None) -> str:
    return render_template("console/mails/forgotten_password.html", email=email, error=error)


def _ask_again(error: ServiceError) -> Response:
    _require_mail()
    response = Response(_link_form(request.form.get("email", ""), error), status=error.code.http_status)
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response
