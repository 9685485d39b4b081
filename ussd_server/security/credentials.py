"""API keys and secrets: their format, and how they are checked and stored."""

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

# Prepared keys are cached, because preparing one takes longer than decrypting a secret.
_cipher = lru_cache(maxsize=16)(AESGCM)


def new_apikey(cell: str = "") -> str:
    """A fresh `apikey`: `uk`, the letter of the cell, 16 random letters and digits, and a checksum of 4."""
    body = _KEY_PREFIX + cell + _random_text(_KEY_RANDOM)
    return body + _checksum(body, _KEY_CHECKSUM)


def new_apisecret() -> str:
    """A fresh `apisecret` of 256 random bits: `ussdsk_[0-9A-Za-z]{49}`, the last 6 a checksum for secret scanners."""
    body = SECRET_PREFIX + _random_text(_SECRET_RANDOM)
    return body + _checksum(body, _SECRET_CHECKSUM)


def may_be_apikey(text: str) -> bool:
    """Whether `text` can be a key at all; the checksum reveals a mistyped key that was made here.

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
    """Stores secrets: an HMAC to authenticate with, and the encrypted text to show again."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring

    def keep(self, secret: str, previous_secret: str | None, client_id: str, key_id: str) -> dict[str, Any]:
        """The columns of one key's row for its secrets: encrypted, and the HMAC, both under the newest master keys."""
        master_key = self._keyring.newest(Ring.DIGESTS)
        columns = {
            "secret_sealed": self.encrypt(secret, client_id, key_id),
            "secret_digest": _digest(master_key, secret, key_id),
            "digest_key_id": master_key.id,
            "previous_secret_sealed": None,
            "previous_secret_digest": None,
        }
        if previous_secret is not None:
            columns["previous_secret_sealed"] = self.encrypt(previous_secret, client_id, key_id)
            columns["previous_secret_digest"] = _digest(master_key, previous_secret, key_id)
        return columns

    def matches(self, secret: str, key_id: str, digest: bytes, digest_key_id: str) -> bool:
        """Whether the HMAC was made of `secret`; compares in constant time."""
        master_key = self._keyring.find(Ring.DIGESTS, digest_key_id)
        if master_key is None:
            return False
        return hmac.compare_digest(_digest(master_key, secret, key_id), digest)

    def knows(self, digest_key_id: str) -> bool:
        """Whether the master key of an HMAC still exists."""
        return self._keyring.find(Ring.DIGESTS, digest_key_id) is not None

    def pretend_to_match(self, secret: str) -> None:
        """Do the work of `matches` for an unknown key, so that the time does not reveal that it does not exist."""
        self.matches(secret, "", b"\0" * 32, self._keyring.newest(Ring.DIGESTS).id)

    def path_digests(self, secret: str) -> list[bytes]:
        """The HMACs that the secret of a gateway path may be stored under: one for each master key, newest last."""
        text = b"path\0" + secret.encode("utf-8", "surrogatepass")
        return [hmac.digest(material, text, "sha256") for material in self._keyring.all_materials(Ring.DIGESTS)]

    def keyed_digest(self, content: bytes) -> str:
        """The id of the newest master key, and the HMAC of `content` under it."""
        master_key = self._keyring.newest(Ring.DIGESTS)
        return f"{master_key.id}:{hmac.digest(master_key.material, content, 'sha256').hex()}"

    def has_digest(self, content: bytes, digest: str) -> bool:
        """Whether `keyed_digest` made `digest` of `content`, under a master key that still exists."""
        key_id, _, written = digest.partition(":")
        master_key = self._keyring.find(Ring.DIGESTS, key_id)
        if master_key is None:
            return False
        expected = hmac.digest(master_key.material, content, "sha256").hex()
        return hmac.compare_digest(expected.encode(), written.encode())

    def is_current_digest(self, digest: str) -> bool:
        """Whether the newest master key made a keyed digest."""
        return digest.startswith(f"{self._keyring.newest(Ring.DIGESTS).id}:")

    def encrypt(self, secret: str, client_id: str, key_id: str) -> bytes:
        """Encrypt a secret (AES-256-GCM), bound to the client and the key's row."""
        master_key = self._keyring.newest(Ring.SEALING)
        nonce = os.urandom(_NONCE_BYTES)
        encrypted = _cipher(master_key.material).encrypt(nonce, secret.encode(), _bound_to(client_id, key_id))
        return _key_prefix(master_key) + nonce + encrypted

    def is_current(self, encrypted: bytes, digest_key_id: str | None = None) -> bool:
        """Whether the newest master keys encrypted this secret and, if `digest_key_id` is given, made its HMAC."""
        newest_digest_id = self._keyring.newest(Ring.DIGESTS).id
        return bytes(encrypted).startswith(_key_prefix(self._keyring.newest(Ring.SEALING))) and (
            digest_key_id in (None, newest_digest_id)
        )

    def decrypt(self, encrypted: bytes, client_id: str, key_id: str) -> str:
        """Decrypt a secret. Raises DecryptionError if it was altered or moved, or its master key is gone."""
        (secret,) = self.decrypt_all([(key_id, encrypted)], client_id)
        return secret

    def decrypt_all(self, encrypted_of_keys: Iterable[tuple[str, bytes]], client_id: str) -> list[str]:
        """Decrypt pairs of key id and secret of one client. Raises as `decrypt`."""
        ciphers: dict[bytes, AESGCM] = {}
        secrets_of_keys = []
        for key_id, encrypted in encrypted_of_keys:
            name, _, rest = bytes(encrypted).partition(b":")
            cipher = ciphers.get(name) or ciphers.setdefault(name, self._cipher_named(name))
            try:
                opened = cipher.decrypt(rest[:_NONCE_BYTES], rest[_NONCE_BYTES:], _bound_to(client_id, key_id))
            except (InvalidTag, ValueError):
                raise DecryptionError from None
            secrets_of_keys.append(opened.decode())
        return secrets_of_keys

    def _cipher_named(self, name: bytes) -> AESGCM:
        master_key = self._keyring.find(Ring.SEALING, name.decode("ascii", "replace"))
        if master_key is None:
            raise DecryptionError
        return _cipher(master_key.material)


def master_key_of(encrypted: bytes) -> str:
    """The id of the master key that encrypted a secret."""
    return bytes(encrypted).partition(b":")[0].decode("ascii", "replace")


class DecryptionError(Exception):
    """A secret cannot be decrypted in its row."""


def _digest(master_key: MasterKey, secret: str, key_id: str) -> bytes:
    # A header may contain a lone surrogate; it must be refused as a wrong secret, not raise.
    return hmac.digest(master_key.material, f"apisecret\0{key_id}\0{secret}".encode("utf-8", "surrogatepass"), "sha256")


def _key_prefix(master_key: MasterKey) -> bytes:
    return master_key.id.encode() + b":"


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
