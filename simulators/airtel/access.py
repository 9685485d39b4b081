"""Who may call Airtel: an application's id and secret, tokens of 180 seconds, country, currency and signatures."""

import secrets
from typing import TYPE_CHECKING

from flask import request

from simulators.airtel.ciphers import KeyPair
from simulators.airtel.envelopes import refusal
from simulators.standin import RefusalError, json_body

if TYPE_CHECKING:
    from simulators.airtel.company import AirtelMoney

TOKEN_SECONDS = 180


class Access:
    """The checks every call passes before it reaches a wallet."""

    def __init__(self, company: "AirtelMoney") -> None:
        self._company = company
        self._settings = company.settings

    def furnish(self) -> None:
        """Make the RSA key, once for a book, so that a client's copy outlives a restart."""
        if self._company.book.kept("rsa", "key", self._company.clock.now()) is None:
            self._company.book.keep("rsa", "key", {"pair": KeyPair.generate().dumped()})

    def keys(self) -> KeyPair:
        """The RSA key of this book."""
        kept = self._company.book.kept("rsa", "key", self._company.clock.now())
        assert kept is not None
        return KeyPair.load(kept["pair"])

    def issue_token(self) -> str:
        """Give a token to the application that shows its id and secret."""
        body = body_or_refuse()
        if body.get("grant_type") != "client_credentials":
            raise RefusalError(400, {"error": "unsupported_grant_type", "error_description": "Use client_credentials"})
        shown = (body.get("client_id"), body.get("client_secret"))
        if shown != (self._settings.client_id, self._settings.client_secret):
            raise RefusalError(401, {"error": "invalid_client", "error_description": "Unknown id or wrong secret"})
        token = secrets.token_urlsafe(24)
        self._company.book.keep("token", token, {}, self._company.clock.now() + TOKEN_SECONDS)
        return token

    def admit(self) -> None:
        """Check the token, country and currency of a call."""
        bearer = request.authorization
        token = bearer.token if bearer is not None and bearer.type == "bearer" else None
        if self._company.book.kept("token", token or "", self._company.clock.now()) is None:
            raise RefusalError(401, {"error": "invalid_token", "error_description": "The token is unknown or expired"})
        country, currency = request.headers.get("X-Country"), request.headers.get("X-Currency")
        if not country or not currency:
            raise refusal(400, "ROUTER003")
        if country != self._settings.country:
            raise refusal(400, "ROUTER006")
        if currency != self._settings.currency:
            raise refusal(400, "ROUTER112")

    def check_signature(self, code: str, required: bool = True) -> None:
        """Refuse with `code` a body that is not what was signed; an unsigned one only where it must be signed."""
        signature, wrapped_key = request.headers.get("x-signature"), request.headers.get("x-key")
        if signature is None and wrapped_key is None and not required:
            return
        if not self.keys().is_signed(request.get_data(), signature or "", wrapped_key or ""):
            raise refusal(200, code)

    def check_pin(self, encrypted: object) -> None:
        """Refuse a PIN that is not encrypted for this company, or not the right one."""
        try:
            pin = self.keys().decrypt(encrypted) if isinstance(encrypted, str) else b""
        except ValueError:
            raise refusal(400, "ROUTER116") from None
        if pin != self._settings.pin.encode():
            raise refusal(400, "ROUTER115")


def body_or_refuse() -> dict[str, object]:
    """The body as a JSON object, or a refusal."""
    try:
        body = json_body()
    except ValueError:
        body = None
    if not isinstance(body, dict) or request.mimetype != "application/json":
        raise refusal(400, "ESB000008")
    return body
