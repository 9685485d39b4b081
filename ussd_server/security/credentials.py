"""The format of API keys and their secrets."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
import zlib

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


def new_apikey() -> str:
    """A fresh `apikey`: `uk`, 16 random letters and digits, and a checksum of 4."""
    body = _KEY_PREFIX + _random_text(_KEY_RANDOM)
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


def _random_text(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _checksum(text: str, length: int) -> str:
    number = zlib.crc32(hashlib.sha256(text.encode()).digest())
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)
