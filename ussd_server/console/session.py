"""The console's cookie: the session of a person who signed in, its end, and the form that was kept over a sign-in."""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from secrets import token_hex
from typing import Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from flask import Request, Response, flash, redirect, render_template, request, session, url_for
from flask_wtf.csrf import generate_csrf, validate_csrf
from itsdangerous import BadData, URLSafeTimedSerializer
from wtforms.validators import ValidationError

from ussd_server.api.requests import services
from ussd_server.languages import gettext, marked

COOKIE_PATH = "/console"
# A form that was kept over a sign-in can be sent for this long after it was filled in.
_FORM_SECONDS = 3600
# The cookie is written again when it is older than this.
_SEEN_AGAIN_SECONDS = 30
# A browser, in the place of a person, whose form is kept without knowing who filled it in.
_UNKNOWN = "unknown/"
_NEVER_KEPT = ("password", "secret", "code", "csrf_token")
_ENDED = {
    "expired": marked("Your login has ended. Please sign in again."),
    "logged_out": marked("You signed out in another window."),
    "password_changed": marked("You were signed out, because your password was changed."),
    "factor_added": marked("You were signed out, because you added a second factor."),
    "factor_removed": marked("You were signed out, because your second factor was removed."),
    "ended_by_team": marked("You were signed out by an owner or admin of your team."),
    "user_disabled": marked("You were signed out, because an owner or admin disabled you."),
    "client_disabled": marked("You were signed out, because your client is disabled."),
}
"""Why a login ended (`end_reason`), as the sign-in page says it."""


def cookie_serializer() -> URLSafeTimedSerializer:
    """Return the serializer of the cookie. The newest master key signs, every key verifies."""
    return _serializer("cookie")


def remember(**login: str) -> None:
    """Begin a signed-in session. Drops what the cookie held, so that an attacker cannot prepare a session.

    Only the browser whose form was kept is noted in it.
    """
    sender = str(session.get("user"))
    session.clear()
    session.update(login, seen=_now())
    if sender.startswith(_UNKNOWN):
        session["sender"] = sender


def is_idle(idle_seconds: int) -> bool:
    """Whether the person did nothing for `idle_seconds`. Else notes the present request, unless a page polls."""
    idle = _now() - session.get("seen", 0)
    if idle > idle_seconds:
        return True
    if idle > _SEEN_AGAIN_SECONDS and "X-Console-Poll" not in request.headers:
        session["seen"] = _now()
    return False


def csrf_token() -> str:
    token: str = generate_csrf(secret_key=_secrets()[-1])
    return token


def has_csrf_token(form_request: Request) -> bool:
    token = form_request.form.get("csrf_token") or form_request.headers.get("X-CSRF-Token")
    for secret in reversed(_secrets()):
        try:
            validate_csrf(token, secret_key=secret, time_limit=None)
        except ValidationError:
            continue
        return True
    return False


def is_upload_of_stranger(form_request: Request) -> bool:
    """Whether a form with a file came without a session of this console: it is refused before it is read."""
    return form_request.mimetype == "multipart/form-data" and not session


def keep_form(form_request: Request) -> str:
    """Sign the form of a request, to be offered again after its sender has signed in. Without passwords and files.

    A form whose cookie is gone is kept for the browser that sent it. Empty for a form that another site may have sent.
    """
    if is_upload_of_stranger(form_request):
        return ""
    if "user" not in session:
        if not _is_from_own_page(form_request):
            return ""
        session["user"] = f"{_UNKNOWN}{token_hex(16)}"
    fields = [
        (name, value)
        for name, value in form_request.form.items(multi=True)
        if not any(word in name.lower() for word in _NEVER_KEPT)
    ]
    kept: str | bytes = _serializer("form").dumps(
        {"path": form_request.path, "fields": fields, "user": session.get("user")}
    )
    return str(kept)


def kept_form(text: str) -> dict[str, Any] | None:
    """The form that `keep_form` signed for the person or the browser that just signed in; None for any other text."""
    try:
        form: dict[str, Any] = _serializer("form").loads(text, max_age=_FORM_SECONDS)
    except BadData:
        return None
    return form if form["user"] in (session.get("user"), session.pop("sender", "")) else None


def ask_to_sign_in(who: str) -> Any:
    """Answer a request without a login: the sign-in page, which keeps the address of the requested page."""
    if "HX-Request" in request.headers:
        return Response(status=401, headers={"HX-Refresh": "true"})
    if request.method == "GET":
        page = "console.show_operator_sign_in" if who == "operator" else "console.show_sign_in"
        _say_why_signed_out()
        return redirect(url_for(page, next=request.full_path.rstrip("?")))
    # A form without the token of this session has no session here.
    shown = render_template(
        "console/sign_in.html",
        kept=keep_form(request),
        is_form_lost=True,
        next="",
        email="",
        for_operators=who == "operator",
    )
    return Response(shown, status=401)


def _say_why_signed_out() -> None:
    """Let the sign-in page say once why the login of this browser goes on no longer."""
    login_id = session.pop("login", None)
    if not (login_id or session.pop("operator_login", None)):
        return
    idle_seconds = services().settings.console_idle_seconds
    if is_idle(idle_seconds):
        minutes = idle_seconds // 60
        why = gettext("You were signed out, because nothing happened here for %(minutes)s minutes.", minutes=minutes)
        flash(why, "warn")
    else:
        flash(_ENDED.get(services().logins.why_ended(login_id) if login_id else "", _ENDED["expired"]), "warn")


def ask_for_factor() -> Any:
    """Lead a person to the page on which they add the second factor that their client requires."""
    if "HX-Request" in request.headers:
        return Response(status=401, headers={"HX-Refresh": "true"})
    return redirect(url_for("console.show_new_factor"), 303)


def _is_from_own_page(form_request: Request) -> bool:
    """Whether the browser says that a page of this console sent the form. Other programs may say so, too."""
    site = form_request.headers.get("Sec-Fetch-Site")
    return site == "same-origin" if site else form_request.headers.get("Origin") == form_request.host_url.rstrip("/")


def encrypt_field(text: str) -> str:
    """A text for a hidden field, which only this service can read."""
    return _fields_cipher().encrypt(f"{session.get('user')}\n{text}".encode()).decode()


def decrypt_field(text: str) -> str:
    """The text that `encrypt_field` encrypted for the same person less than an hour ago; empty for any other."""
    try:
        user, _, decrypted = _fields_cipher().decrypt(text, ttl=_FORM_SECONDS).decode().partition("\n")
    except InvalidToken:
        return ""
    return decrypted if user == str(session.get("user")) else ""


def _fields_cipher() -> MultiFernet:
    keys = [hashlib.sha256(b"console/field" + secret).digest() for secret in reversed(_secrets())]
    return MultiFernet([Fernet(urlsafe_b64encode(key)) for key in keys])


def _serializer(salt: str) -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(
        _secrets(), salt=f"console/{salt}", signer_kwargs={"digest_method": hashlib.sha256, "key_derivation": "hmac"}
    )


def _secrets() -> list[bytes]:
    return services().logins.console_keys()


def _now() -> int:
    return int(services().clock.now().timestamp())
