"""Security: a person's password, logins and second factor, and whether the client requires one."""

from __future__ import annotations

from typing import Any

import segno
from flask import render_template, request

from ussd_server.api.requests import services
from ussd_server.console.blueprint import TOO_OLD, console
from ussd_server.console.forms import done, fault_of
from ussd_server.console.session import decrypt_field, encrypt_field
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.services.clients.messages import ChangePassword
from ussd_server.status import Code


@console.page("GET", "/security", before_factor=True)
def show_security(context: RequestContext) -> str:
    return render_template(
        "console/security/security.html",
        factor=services().second_factors.show(context),
        logins=services().logins.open_of_caller(context),
        this_login=context.caller.login_id,
    )


@console.page(
    "POST",
    "/security/password",
    fresh_code=True,
    form_on="show_security",
    refusals=(Code.INVALID_CREDENTIALS, Code.RATE_LIMIT_EXCEEDED),
)
def change_own_password(context: RequestContext) -> Any:
    """Change the person's password, which ends all their other logins."""
    form = request.form
    if form.get("new_password", "") != form.get("new_password_again", ""):
        raise fault_of("new_password_again", "The two passwords differ.")
    wanted = ChangePassword(form.get("present_password", ""), form.get("new_password", ""))
    services().logins.change_password(wanted, context)
    return done("Your password is changed. All your other logins have ended.", "show_security")


@console.page("POST", "/security/logins/<login_id>/end", fresh_code=True)
def end_own_login(context: RequestContext, login_id: str) -> Any:
    services().logins.end_one(login_id, context)
    return done("The login has ended.", "show_security")


@console.page("GET", "/security/new", before_factor=True)
def show_new_factor(context: RequestContext) -> str:
    """A secret for an authenticator, and the form for its first code."""
    factor = services().second_factors.prepare(context, decrypt_field(request.form.get("secret", "")))
    qr_code = segno.make(factor.uri, micro=False).svg_data_uri(scale=4, border=4, light="white")
    field = encrypt_field(factor.secret)
    return render_template("console/security/new.html", factor=factor, field=field, qr_code=qr_code)


@console.page("POST", "/security/new", fresh_code=True, before_factor=True, form_on="show_new_factor")
def add_factor(context: RequestContext) -> Any:
    """Make the shown secret the second factor, and show the recovery codes."""
    secret = decrypt_field(request.form.get("secret", ""))
    if not secret:
        raise TOO_OLD
    codes = services().second_factors.add(secret, request.form.get("code", ""), context)
    return _codes_page(gettext("You have a second factor"), codes)


@console.page("POST", "/security/recovery-codes", fresh_code=True)
def replace_recovery_codes(context: RequestContext) -> str:
    return _codes_page(gettext("Your new recovery codes"), services().second_factors.replace_recovery_codes(context))


@console.page("POST", "/security/remove", fresh_code=True)
def remove_own_factor(context: RequestContext) -> Any:
    """Sign in with the password alone from now on."""
    services().second_factors.remove_own(context)
    return done("Your second factor is removed.", "show_security", tone="warn")


@console.page("POST", "/people/<user_id>/second-factor/remove", needs="team:write", fresh_code=True)
def remove_factor_of_person(context: RequestContext, user_id: str) -> Any:
    services().second_factors.remove(user_id, context)
    return done(
        "The second factor is removed, and the person is signed out everywhere.", "show_person", user_id=user_id
    )


@console.page("POST", "/people/second-factor/<any(required,optional):action>", needs="team:write", fresh_code=True)
def require_factor(context: RequestContext, action: str) -> Any:
    services().second_factors.require(action == "required", context)
    return done(
        "Every person needs a second factor from now on." if action == "required" else "Each person decides.",
        "list_people",
    )


def _codes_page(title: str, codes: tuple[str, ...]) -> str:
    return render_template("console/security/recovery_codes.html", title=title, codes=codes)
