"""API keys and secrets as things: how they look, how they are checked, and how they are kept."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import string
import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ussd_server.security.key_ring import Keyring, MasterKey, Ring

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_KEY_PREFIX = "uk"
_KEY_RANDOM = 16
_KEY_CHECKSUM = 4
SECRET_PREFIX = "ussdsk_"  # noqa: S105 - how every secret begins
# 43 digits of base 62 carry 256 bits.
_SECRET_RANDOM = 43
_SECRET_CHECKSUM = 6
_NATIVE_KEY_LENGTH = len(_KEY_PREFIX) + _KEY_RANDOM + _KEY_CHECKSUM
_GIVEN_KEY = re.compile(r"[A-Za-z0-9]{8,64}")
_GIVEN_SECRET = re.compile(r"[!-~]{16,128}")
_NONCE_BYTES = 12

# To prepare a key takes longer than to open a secret with it.
_cipher = lru_cache(maxsize=16)(AESGCM)


def new_apikey() -> str:
    """A fresh `apikey`: `uk`, 16 random letters and digits, and a checksum of 4."""
    body = _KEY_PREFIX + _random_text(_KEY_RANDOM)
    return body + _checksum(body, _KEY_CHECKSUM)


def new_apisecret() -> str:
    """A fresh `apisecret` of 256 random bits: `ussdsk_[0-9A-Za-z]{49}`, the last 6 a checksum for secret scanners."""
    body = SECRET_PREFIX + _random_text(_SECRET_RANDOM)
    return body + _checksum(body, _SECRET_CHECKSUM)


def may_be_apikey(text: str) -> bool:
    """Whether `text` can be a key at all; a mistyped key of our own making is told by its checksum alone.

    Keys that an operator imported are 8 to 64 letters and digits of any other look.
    """
    if not _GIVEN_KEY.fullmatch(text):
        return False
    if text.startswith(_KEY_PREFIX) and len(text) == _NATIVE_KEY_LENGTH:
        return hmac.compare_digest(
            _checksum(text[:-_KEY_CHECKSUM], _KEY_CHECKSUM).encode(), text[-_KEY_CHECKSUM:].encode()
        )
    return True


def may_be_apisecret(text: str) -> bool:
    """Whether `text` can be imported as a secret: 16 to 128 printable ASCII characters without spaces."""
    return bool(_GIVEN_SECRET.fullmatch(text))


class Vault:
    """Keeps secrets: digests them for the door and seals them for those who may see them again."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def keep(self, secret: str, previous_secret: str | None, client_id: str, key_id: str) -> dict[str, Any]:
        """The columns that keep the secrets of one key in its row: sealed, and digested under one key of the house."""
        house_key = self._keyring.newest(Ring.DIGESTS)
        columns = {
            "secret_sealed": self.seal(secret, client_id, key_id),
            "secret_digest": _digest(house_key, secret, key_id),
            "digest_key_id": house_key.id,
            "previous_secret_sealed": None,
            "previous_secret_digest": None,
        }
        if previous_secret is not None:
            columns["previous_secret_sealed"] = self.seal(previous_secret, client_id, key_id)
            columns["previous_secret_digest"] = _digest(house_key, previous_secret, key_id)
        return columns

    def matches(self, secret: str, key_id: str, digest: bytes, digest_key_id: str) -> bool:
        """Whether `secret` is the one that was digested; compares bytes in constant time."""
        house_key = self._keyring.find(Ring.DIGESTS, digest_key_id)
        if house_key is None:
            return False
        return hmac.compare_digest(_digest(house_key, secret, key_id), digest)

    def knows(self, digest_key_id: str) -> bool:
        """Whether a digest under this key of the house can still be compared."""
        return self._keyring.find(Ring.DIGESTS, digest_key_id) is not None

    def pretend_to_match(self, secret: str) -> None:
        """Do the work of `matches` for a key that does not exist, so that time does not tell."""
        self.matches(secret, "", b"\0" * 32, self._keyring.newest(Ring.DIGESTS).id)

    def path_digests(self, secret: str) -> list[bytes]:
        """The digests under which the secret of a gateway path may stand: one for each key, newest last."""
        text = b"path\0" + secret.encode("utf-8", "surrogatepass")
        return [hmac.digest(material, text, "sha256") for material in self._keyring.all_materials(Ring.DIGESTS)]

    def seal(self, secret: str, client_id: str, key_id: str) -> bytes:
        """Encrypt a secret for one row: it opens with the same client and key only (AES-256-GCM)."""
        house_key = self._keyring.newest(Ring.SEALING)
        nonce = os.urandom(_NONCE_BYTES)
        sealed = _cipher(house_key.material).encrypt(nonce, secret.encode(), _bound_to(client_id, key_id))
        return _sealed_by(house_key) + nonce + sealed

    def is_current(self, sealed: bytes, digest_key_id: str | None = None) -> bool:
        """Whether the newest keys of the house sealed this secret and, where the digest's key is named, digested it."""
        newest_digest_id = self._keyring.newest(Ring.DIGESTS).id
        return bytes(sealed).startswith(_sealed_by(self._keyring.newest(Ring.SEALING))) and (
            digest_key_id in (None, newest_digest_id)
        )

    def open(self, sealed: bytes, client_id: str, key_id: str) -> str:
        """Decrypt a sealed secret. Raises SealBrokenError when it was altered or moved here, or its key is gone."""
        (secret,) = self.open_all([(key_id, sealed)], client_id)
        return secret

    def open_all(self, sealed_of_keys: Iterable[tuple[str, bytes]], client_id: str) -> list[str]:
        """Decrypt the sealed secrets of one client's keys, each beside its key's id; raises what `open` raises."""
        ciphers: dict[bytes, AESGCM] = {}
        secrets_of_keys = []
        for key_id, sealed in sealed_of_keys:
            name, _, rest = bytes(sealed).partition(b":")
            cipher = ciphers.get(name) or ciphers.setdefault(name, self._cipher_named(name))
            try:
                opened = cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _bound_to(client_id, key_id))
            except (InvalidTag, ValueError):
                raise SealBrokenError from None
            secrets_of_keys.append(opened.decode())
        return secrets_of_keys

    def _cipher_named(self, name: bytes) -> AESGCM:
        house_key = self._keyring.find(Ring.SEALING, name.decode("ascii", "replace"))
        if house_key is None:
            raise SealBrokenError
        return _cipher(house_key.material)


class SealBrokenError(Exception):
    """A sealed secret does not open in the row where it stands."""


def _digest(house_key: MasterKey, secret: str, key_id: str) -> bytes:
    # A header may carry half a surrogate; it must be refused as a wrong secret, not fail.
    return hmac.digest(house_key.material, f"apisecret\0{key_id}\0{secret}".encode("utf-8", "surrogatepass"), "sha256")


def _sealed_by(house_key: MasterKey) -> bytes:
    return house_key.id.encode() + b":"


def _bound_to(client_id: str, key_id: str) -> bytes:
    return f"{client_id}/{key_id}".encode()


def _random_text(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _checksum(text: str, length: int) -> str:
    number = zlib.crc32(hashlib.sha256(text.encode()).digest())
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)
