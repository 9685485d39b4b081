"""Tokens: access and refresh tokens, service identifiers, page cursors and callback secrets."""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import jwt
from itsdangerous import BadData, URLSafeSerializer

from ussd_server.security.key_ring import Keyring
from ussd_server.security.secrets_file import Ring
from ussd_server.status import CursorError

ACCESS_SECONDS = 900
REFRESH_SECONDS = 30 * 24 * 3600

_ALGORITHM = "HS256"
_ISSUER = "ussd-server"
_AUDIENCE = "ussd-server/management"
_CLAIMS = ["iss", "aud", "sub", "client_id", "login_id", "iat", "exp"]


@dataclass(frozen=True, slots=True)
class AccessClaims:
    user_id: str
    client_id: str
    login_id: str


@dataclass(frozen=True, slots=True)
class RefreshClaims:
    """The content of a valid refresh token: its login, and its number within that login."""

    login_id: str
    number: int


@dataclass(frozen=True, slots=True)
class PasswordLinkClaims:
    """The content of a link to choose a password: the person, a digest of the present hash, and the end of the link."""

    user_id: str
    hash_digest: str
    expires_at_seconds: int


class Tokens:
    """Signs and verifies every token. Each kind has its own salt."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def issue_access(self, claims: AccessClaims, now: datetime) -> str:
        """A JWT (HS256, `kid` in its header) that is good for ACCESS_SECONDS from `now`."""
        key = self._keyring.newest(Ring.TOKENS)
        payload = {
            "iss": _ISSUER,
            "aud": _AUDIENCE,
            "sub": claims.user_id,
            "client_id": claims.client_id,
            "login_id": claims.login_id,
            "iat": int(now.timestamp()),
            "exp": int((now + timedelta(seconds=ACCESS_SECONDS)).timestamp()),
        }
        return jwt.encode(payload, key.material, algorithm=_ALGORITHM, headers={"kid": key.id})

    def read_access(self, token: str, now: datetime) -> AccessClaims | None:
        """The claims of a token that we signed and that has not expired at `now`, None for any other text."""
        try:
            key = self._keyring.find(Ring.TOKENS, str(jwt.get_unverified_header(token).get("kid")))
            if key is None:
                return None
            claims = jwt.decode(
                token,
                key.material,
                algorithms=[_ALGORITHM],
                audience=_AUDIENCE,
                issuer=_ISSUER,
                # Expiry is judged by the service's own clock below.
                options={"require": _CLAIMS, "verify_exp": False, "verify_iat": False, "verify_nbf": False},
            )
        except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
            return None
        if not isinstance(claims["exp"], int) or claims["exp"] <= now.timestamp():
            return None
        return AccessClaims(user_id=claims["sub"], client_id=claims["client_id"], login_id=claims["login_id"])

    def issue_refresh(self, claims: RefreshClaims) -> str:
        """A refresh token; its number makes it single-use."""
        return self._sign("refresh", [claims.login_id, claims.number])

    def read_refresh(self, token: str) -> RefreshClaims | None:
        """The claims of a refresh token that we signed, None for any other text."""
        content = self._read("refresh", token)
        return None if content is None else RefreshClaims(login_id=content[0], number=content[1])

    def issue_password_link(self, claims: PasswordLinkClaims) -> str:
        """The secret part of a link to choose a password; the digest makes it single-use."""
        return self._sign("password-link", [claims.user_id, claims.hash_digest, claims.expires_at_seconds])

    def read_password_link(self, token: str) -> PasswordLinkClaims | None:
        """The claims of a password link that we signed, None for any other text. The caller checks the end."""
        content = self._read("password-link", token)
        return None if content is None else PasswordLinkClaims(*content)

    def service_identifier(self, client_id: str, issued_at: datetime) -> str:
        """The text by which a client names itself to the provider's support."""
        return self._sign("service-identifier", [client_id, int(issued_at.timestamp() * 1000)])

    def console_keys(self) -> list[bytes]:
        """The secrets that sign the console's cookies and forms, oldest first; the newest signs, every one verifies."""
        return [hmac.digest(key, b"console", "sha256") for key in self._keyring.all_materials(Ring.SIGNING)]

    def cursor(self, kind: str, position: str) -> str:
        """An opaque position in a list of `kind`, at which the next page begins."""
        return self._sign(f"cursor/{kind}", position)

    def read_cursor(self, kind: str, cursor: str) -> str:
        """The position of a cursor. INVALID_REQUEST when it is not one of ours, or of another list."""
        position = self._read(f"cursor/{kind}", cursor)
        if not isinstance(position, str):
            raise CursorError
        return position

    def callback_path(self, provider: str) -> str:
        """The path at which a provider may call back: a credential, made from the newest key."""
        return f"/callbacks/{provider}/{self._path_secret(f'callback/{provider}')}"

    def is_callback_secret(self, provider: str, secret: str) -> bool:
        """Whether `secret` was made from any of our keys: providers keep an address for long."""
        return self._is_secret(f"callback/{provider}", secret)

    def incoming_path(self, provider: str) -> str:
        """The path at which a provider checks and reports payments that payers make by themselves: a credential."""
        return f"/callbacks/{provider}/incoming/{self._path_secret(f'incoming/{provider}')}"

    def is_incoming_secret(self, provider: str, secret: str) -> bool:
        """Whether `secret` was made from any of our keys for the incoming payments of a provider."""
        return self._is_secret(f"incoming/{provider}", secret)

    def incoming_signing_secrets(self, provider: str) -> list[str]:
        """The Standard Webhooks secrets that a provider may sign its notices with, the newest last."""
        purpose = f"incoming-signature/{provider}".encode()
        digests = [hmac.digest(key, purpose, "sha256") for key in self._keyring.all_materials(Ring.SIGNING)]
        return [f"whsec_{base64.b64encode(digest).decode()}" for digest in digests]

    def _path_secret(self, purpose: str) -> str:
        return _secret_of(self._keyring.newest(Ring.SIGNING).material, purpose)

    def _is_secret(self, purpose: str, secret: str) -> bool:
        ours = [_secret_of(material, purpose) for material in self._keyring.all_materials(Ring.SIGNING)]
        matches = [hmac.compare_digest(own.encode(), secret.encode()) for own in ours]
        return any(matches)

    def _sign(self, salt: str, content: Any) -> str:
        return str(self._serializer(salt).dumps(content))

    def _read(self, salt: str, text: str) -> Any:
        try:
            return self._serializer(salt).loads(text)
        except (BadData, UnicodeEncodeError):
            return None

    def _serializer(self, salt: str) -> URLSafeSerializer:
        return URLSafeSerializer(
            self._keyring.all_materials(Ring.SIGNING), salt=salt, signer_kwargs={"digest_method": hashlib.sha256}
        )


def _secret_of(material: bytes, purpose: str) -> str:
    return hmac.digest(material, purpose.encode(), "sha256")[:24].hex()
