"""Who may call MTN: subscription keys per product, API users, API keys, and tokens per product that expire."""

import secrets
import uuid
from typing import TYPE_CHECKING

from flask import request

from simulators.mtn.errors import malformed, refusal
from simulators.standin import RefusalError, json_body

if TYPE_CHECKING:
    from simulators.mtn.company import MtnMomo

HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")


class Access:
    """The checks every call passes before it reaches a wallet."""

    def __init__(self, company: "MtnMomo") -> None:
        self._company = company
        self._settings = company.settings

    def furnish(self) -> None:
        """Keep the API user that was made in the partner portal, when there is one."""
        settings = self._settings
        if settings.api_user:
            self._company.book.keep("api_user", settings.api_user, {"callback_host": settings.callback_host})
            self._company.book.keep("api_key", settings.api_key, {"api_user": settings.api_user})

    def create_user(self) -> None:
        """Make the API user named by X-Reference-Id, with the host its callbacks may go to."""
        self._check_provisioning()
        name = reference_id()
        host = _field(json_body_or_refuse(), "providerCallbackHost")
        if not host or not set(host.lower()) <= HOST_CHARACTERS:
            raise malformed("providerCallbackHost is a host without a scheme")
        if not self._company.book.keep("api_user", name, {"callback_host": host}):
            raise refusal(409)

    def show_user(self, user: str) -> dict[str, str]:
        """What is known of an API user."""
        self._check_provisioning()
        return {
            "providerCallbackHost": self.callback_host(user),
            "targetEnvironment": self._settings.target_environment,
        }

    def create_key(self, user: str) -> str:
        """Make a new API key for an API user. Its body is ignored: the package `mtnmomo` sends the callback host."""
        self._check_provisioning()
        self.callback_host(user)
        key = secrets.token_hex(16)
        self._company.book.keep("api_key", key, {"api_user": user})
        return key

    def issue_token(self, product: str) -> str:
        """Give a token for one product to an API user that shows its key."""
        self._check_subscription(product)
        refuse_a_body()
        login = request.authorization
        key = login.password if login is not None and login.type == "basic" else None
        owner = self._company.book.kept("api_key", key or "", self._now())
        if login is None or owner is None or owner["api_user"] != login.username:
            raise RefusalError(401, {"error": "login_failed"})
        token = secrets.token_urlsafe(32)
        expires_at = self._now() + self._settings.token_seconds
        self._company.book.keep("token", token, {"product": product, "api_user": login.username}, expires_at)
        return token

    def admit(self, product: str) -> str:
        """Check key, token and environment of a call; gives the API user that calls."""
        self._check_subscription(product)
        bearer = request.authorization
        token = bearer.token if bearer is not None and bearer.type == "bearer" else None
        known = self._company.book.kept("token", token or "", self._now())
        if known is None or known["product"] != product:
            raise refusal(401)
        if request.headers.get("X-Target-Environment") != self._settings.target_environment:
            raise refusal(500, "NOT_ALLOWED_TARGET_ENVIRONMENT")
        return str(known["api_user"])

    def callback_host(self, user: str) -> str:
        """The host an API user registered."""
        known = self._company.book.kept("api_user", user, self._now())
        if known is None:
            raise refusal(404)
        return str(known["callback_host"])

    def _check_subscription(self, product: str) -> None:
        if request.headers.get("Ocp-Apim-Subscription-Key") != self._settings.subscription_keys[product]:
            raise refusal(401)

    def _check_provisioning(self) -> None:
        """API users can be made by a call in the sandbox only; live ones are made by hand in the partner portal."""
        if self._settings.live:
            raise refusal(404)
        if request.headers.get("Ocp-Apim-Subscription-Key") not in self._settings.subscription_keys.values():
            raise refusal(401)

    def _now(self) -> float:
        return self._company.clock.now()


def reference_id() -> str:
    """X-Reference-Id, which must be a version 4 UUID in its usual form."""
    text = request.headers.get("X-Reference-Id", "")
    try:
        parsed = uuid.UUID(text)
    except ValueError:
        raise malformed("X-Reference-Id is a version 4 UUID") from None
    if parsed.version != 4 or str(parsed) != text.lower():
        raise malformed("X-Reference-Id is a version 4 UUID")
    return str(parsed)


def json_body_or_refuse() -> object:
    """The body as JSON, or 400."""
    if request.mimetype != "application/json":
        raise malformed("the content type is application/json")
    try:
        return json_body()
    except ValueError:
        raise malformed("the body is JSON") from None


def refuse_a_body() -> None:
    """400 for a body where none belongs; `{}` and `null`, which clients in the field send, are let through."""
    try:
        superfluous = json_body() not in (None, {})
    except ValueError:
        superfluous = True
    if superfluous:
        raise malformed("this call takes no body")


def _field(body: object, name: str) -> str:
    value = body.get(name) if isinstance(body, dict) else None
    return value if isinstance(value, str) else ""
