"""Forgot password: a person without a login asks for a link by mail."""

from __future__ import annotations

from flask import Response, flash, redirect, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import NO_PAGE, TOO_OLD, console
from ussd_server.context import RequestContext
from ussd_server.status import Code, ServiceError


@console.page("GET", "/forgotten-password", who="public")
def show_forgotten_password(_: RequestContext) -> str:
    """The form that asks for the address."""
    _require_mail()
    return _form("", None)


@console.page("POST", "/forgotten-password", who="public", stale_form=lambda: _again(TOO_OLD))
def request_password_link(context: RequestContext) -> object:
    """Have a link mailed. The reply is the same for every address."""
    _require_mail()
    try:
        services().forgotten_passwords.request(request.form.get("email", "").strip(), context)
    except ServiceError as error:
        return _again(error)
    flash("If the address is known, a link is on its way. It works once, for an hour.", "good")
    return redirect(url_for("console.show_sign_in"), 303)


def _require_mail() -> None:
    if not services().mails.is_on:
        raise ServiceError(Code.NOT_FOUND, NO_PAGE)


def _form(email: str, error: ServiceError | None) -> str:
    return render_template("console/mails/forgotten_password.html", email=email, error=error)


def _again(error: ServiceError) -> Response:
    _require_mail()
    response = Response(_form(request.form.get("email", ""), error), status=error.code.http_status)
    if error.retry_after_seconds is not None:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response
