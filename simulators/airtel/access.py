"""Access to Airtel: the application's id and secret, tokens of 180 seconds, country, currency and signatures."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from flask import Response, jsonify, request

from simulators.airtel.ciphers import KeyPair
from simulators.airtel.requests import envelope, read_json, refusal
from simulators.standin import Authorizer, RefusalError

TOKEN_SECONDS = 180
KEY_DAYS = 365


@dataclass(frozen=True, slots=True)
class AirtelSettings:
    """The settings; `callback_url` is the one URL that the application registered, empty for none."""

    client_id: str = "airtel-client"
    client_secret: str = "airtel-secret"
    pin: str = "1234"
    country: str = "UG"
    currency: str = "UGX"
    callback_url: str = ""


@dataclass(frozen=True)
class AirtelAuthorizer(Authorizer):
    """The routes for tokens and the RSA key, and the checks of every other call."""

    settings: AirtelSettings

    def prepare(self) -> None:
        """Generate the RSA key once for a book, so that a client's copy stays valid after a restart."""
        if self.credential("rsa", "key") is None:
            self.book.add_credential("rsa", "key", {"pair": KeyPair.generate().dumped()})

    def issue_token(self) -> Response:
        """Issue a token to the application that sends its id and secret."""
        body = read_json()
        if body.get("grant_type") != "client_credentials":
            raise RefusalError(400, {"error": "unsupported_grant_type", "error_description": "Use client_credentials"})
        sent = (body.get("client_id"), body.get("client_secret"))
        if sent != (self.settings.client_id, self.settings.client_secret):
            raise RefusalError(401, {"error": "invalid_client", "error_description": "Unknown id or wrong secret"})
        token = self.create_token({}, TOKEN_SECONDS)
        return jsonify(access_token=token, expires_in=str(TOKEN_SECONDS), token_type="bearer")

    def encryption_keys(self) -> Response:
        """Publish the RSA key."""
        self.admit()
        valid_upto = datetime.fromtimestamp(self.clock.now(), UTC) + timedelta(days=KEY_DAYS)
        data = {
            "key_id": "1",
            "key": self._keys().published(),
            "valid_upto": valid_upto.strftime("%d-%m-%Y %H:%M:%S"),
        }
        return jsonify(envelope(data, "DP02010001001"))

    def admit(self) -> None:
        """Check the token, country and currency of a call."""
        if self.bearer() is None:
            # Airtel has been seen to refuse a token with either status.
            status = 403 if "Authorization" in request.headers else 401
            raise RefusalError(status, {"error": "invalid_token", "error_description": "Unknown or expired"})
        country, currency = request.headers.get("X-Country"), request.headers.get("X-Currency")
        if not country or not currency:
            raise refusal(400, "ROUTER003")
        if country != self.settings.country:
            raise refusal(400, "ROUTER006")
        if currency != self.settings.currency:
            raise refusal(400, "ROUTER112")

    def check_signature(self, code: str, required: bool = True) -> None:
        """Refuse with `code` a body with a wrong signature, and one without a signature where it is required."""
        signature, wrapped_key = request.headers.get("x-signature"), request.headers.get("x-key")
        if signature is None and wrapped_key is None and not required:
            return
        if not self._keys().is_signed(request.get_data(), signature or "", wrapped_key or ""):
            raise refusal(200, code)

    def check_pin(self, encrypted: object) -> None:
        """Refuse a PIN that is wrong or not encrypted with the RSA key."""
        try:
            pin = self._keys().decrypt(encrypted) if isinstance(encrypted, str) else b""
        except ValueError:
            raise refusal(400, "ROUTER116") from None
        if pin != self.settings.pin.encode():
            raise refusal(400, "ROUTER115")

    def _keys(self) -> KeyPair:
        stored = self.credential("rsa", "key")
        assert stored is not None
        return KeyPair.load(stored["pair"])
