"""Signing in and out."""

from __future__ import annotations

import re
from typing import Any

from flask import Response, flash, redirect, render_template, request, session, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.session import kept_form, remember
from ussd_server.context import RequestContext
from ussd_server.messages.clients import LogIn, LogOut
from ussd_server.status import Code, ServiceError

# A path of the console: no other host, no second slash, no backslash.
_OWN_PATH = re.compile(r"/console(?:/(?![/\\])[^\\\s]*|\?[^\\\s]*)?")


@console.page("GET", "/sign-in", is_public=True)
def show_sign_in(_: RequestContext) -> str:
    """The sign-in form."""
    return render_template("console/sign_in.html", next=request.args.get("next", ""), kept="", email="")


@console.page("POST", "/sign-in", is_public=True)
def sign_in(context: RequestContext) -> Any:
    """Check the password, and go on where the person wanted to go."""
    form = request.form
    kept, wanted = form.get("kept", ""), form.get("next", "")
    try:
        login_id = services().clients.logins.begin_for_console(
            LogIn(form.get("email", "").strip(), form.get("password", "")), context
        )
    except ServiceError as error:
        if error.code not in (Code.INVALID_CREDENTIALS, Code.RATE_LIMIT_EXCEEDED):
            raise
        shown = render_template(
            "console/sign_in.html", next=wanted, kept=kept, email=form.get("email", ""), error=error
        )
        response = Response(shown, status=error.code.http_status)
        if error.retry_after_seconds is not None:
            response.headers["Retry-After"] = str(error.retry_after_seconds)
        return response
    remember(login=login_id, user=services().clients.auth.authenticate_login(login_id).caller.user_id or "")
    if kept:
        if form_of_before := kept_form(kept):
            return render_template("console/send_again.html", **form_of_before)
        flash("You are signed in. The form that you sent before could not be kept; please fill it in again.", "warn")
    return redirect(wanted if _OWN_PATH.fullmatch(wanted) else url_for("console.show_overview"), 303)


@console.page("POST", "/sign-out")
def sign_out(context: RequestContext) -> Any:
    """End this login, or every login of the person."""
    everywhere = request.form.get("everywhere") == "1"
    services().clients.logins.end(LogOut(everywhere), context)
    session.clear()
    flash("You are signed out everywhere." if everywhere else "You are signed out.", "good")
    return redirect(url_for("console.show_sign_in"), 303)
