"""Access to MTN: a subscription key for each product, API users with their keys, and tokens for one product."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from flask import Response, jsonify, request

from simulators.mtn.requests import malformed, read_json, reference_id, refusal, refuse_a_body
from simulators.standin import Authorizer, RefusalError, empty_response

HOST_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789.-")


@dataclass(frozen=True, slots=True)
class MtnSettings:
    """The settings; every environment but `sandbox` is a live one, whose API user is given here.

    `is_new_platform`: it refuses what `momoapi.momo.africa` refuses.
    """

    target_environment: str = "sandbox"
    currency: str = "EUR"
    subscription_keys: Mapping[str, str] = field(
        default_factory=lambda: {name: f"{name}-key" for name in ("collection", "disbursement", "remittance")}
    )
    api_user: str = ""
    api_key: str = ""
    callback_host: str = "127.0.0.1"
    token_seconds: int = 3600
    is_new_platform: bool = False

    @property
    def live(self) -> bool:
        """Whether this is a live environment, with its stricter rules."""
        return self.target_environment != "sandbox"


@dataclass(frozen=True)
class MtnAuthorizer(Authorizer):
    """The routes for provisioning and tokens, and the checks of every other call."""

    settings: MtnSettings

    def prepare(self) -> None:
        """Add the API user of the settings, if there is one."""
        settings = self.settings
        if settings.api_user:
            self.book.add_credential("api_user", settings.api_user, {"callback_host": settings.callback_host})
            self.book.add_credential("api_key", settings.api_key, {"api_user": settings.api_user})

    def create_user(self) -> Response:
        """Create the API user named by X-Reference-Id, with the host that its callbacks may use."""
        self._check_provisioning()
        name = reference_id()
        body = read_json()
        host = body.get("providerCallbackHost") if isinstance(body, dict) else None
        # MTN's page names a host; its sandbox takes one with a scheme, too.
        host = host.rpartition("://")[2] if isinstance(host, str) else host
        if not isinstance(host, str) or not host or not set(host.lower()) <= HOST_CHARACTERS:
            raise malformed("providerCallbackHost is a host without a scheme")
        if not self.book.add_credential("api_user", name, {"callback_host": host}):
            raise refusal(409)
        return empty_response(201)

    def show_user(self, user: str) -> Response:
        """Show the callback host and the environment of an API user."""
        self._check_provisioning()
        return jsonify(
            providerCallbackHost=self.callback_host(user), targetEnvironment=self.settings.target_environment
        )

    def create_key(self, user: str) -> Response:
        """Create an API key for an API user. Ignores the body: the package `mtnmomo` sends the callback host."""
        self._check_provisioning()
        self.callback_host(user)
        key = secrets.token_hex(16)
        self.book.add_credential("api_key", key, {"api_user": user})
        response = jsonify(apiKey=key)
        response.status_code = 201
        return response

    def issue_token(self, product: str) -> Response:
        """Issue a token for one product to an API user that sends its key."""
        self._check_platform()
        self._check_subscription(product)
        refuse_a_body()
        login = request.authorization
        key = login.password if login is not None and login.type == "basic" else None
        owner = self.credential("api_key", key or "")
        if login is None or owner is None or owner["api_user"] != login.username:
            raise RefusalError(401, {"error": "login_failed"})
        seconds = self.settings.token_seconds
        token = self.create_token({"product": product, "api_user": login.username}, seconds)
        return jsonify(access_token=token, token_type="access_token", expires_in=seconds)

    def admit(self, product: str) -> str:
        """Check subscription key, token and environment of a call; returns the API user that calls."""
        self._check_platform()
        self._check_subscription(product)
        token = self.bearer()
        if token is None or token["product"] != product:
            raise refusal(401)
        if request.headers.get("X-Target-Environment") != self.settings.target_environment:
            raise refusal(500, "NOT_ALLOWED_TARGET_ENVIRONMENT")
        return str(token["api_user"])

    def callback_host(self, user: str) -> str:
        """Returns the host that an API user registered."""
        details = self.credential("api_user", user)
        if details is None:
            raise refusal(404)
        return str(details["callback_host"])

    def _check_subscription(self, product: str) -> None:
        if request.headers.get("Ocp-Apim-Subscription-Key") != self.settings.subscription_keys[product]:
            raise refusal(401)

    def _check_platform(self) -> None:
        """Refuse what the newer platform refuses: `python-requests`, and token calls without an environment."""
        if not self.settings.is_new_platform:
            return
        if "python-requests" in request.headers.get("User-Agent", ""):
            raise RefusalError(403, {"statusCode": 403, "message": "Forbidden"})
        is_token = request.path.endswith("/token/")
        if is_token and request.headers.get("X-Target-Environment") != self.settings.target_environment:
            raise RefusalError(400, {"error": "Invalid or missing X-Target-Environment header"})

    def _check_provisioning(self) -> None:
        """Allow provisioning in the sandbox only; live API users are created in the partner portal."""
        if self.settings.live:
            raise refusal(404)
        if request.headers.get("Ocp-Apim-Subscription-Key") not in self.settings.subscription_keys.values():
            raise refusal(401)
