"""Airtel's secrets on the wire: its RSA key, encrypted PINs, signed messages, and the callback's hash."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from typing import Any

from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
)

KEY_BITS = 1024  # Airtel's own size


class KeyPair:
    """The company's RSA key: it publishes one half and reads what was encrypted with it."""

    def __init__(self, private_key: RSAPrivateKey) -> None:
        self._private_key = private_key

    @classmethod
    def generate(cls) -> "KeyPair":
        """Make a new one."""
        return cls(generate_private_key(65537, KEY_BITS))

    @classmethod
    def load(cls, text: str) -> "KeyPair":
        """Take one up again from what `dumped` gave."""
        key = load_der_private_key(base64.b64decode(text), None)
        assert isinstance(key, RSAPrivateKey)
        return cls(key)

    def dumped(self) -> str:
        """Both halves as text, for the book."""
        der = self._private_key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        return base64.b64encode(der).decode()

    def published(self) -> str:
        """The public half as clients get it: base64 of its SubjectPublicKeyInfo."""
        der = self._private_key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(der).decode()

    def decrypt(self, text: str) -> bytes:
        """Read base64 of an RSA PKCS#1 v1.5 message; ValueError when it is not one for this key."""
        return self._private_key.decrypt(base64.b64decode(text, validate=True), PKCS1v15())

    def is_signed(self, body: bytes, signature: str, wrapped_key: str) -> bool:
        """Whether `x-signature` is exactly this body, encrypted with the AES key and vector that `x-key` carries."""
        try:
            key, vector = (base64.b64decode(part, validate=True) for part in self.decrypt(wrapped_key).split(b":"))
            decryptor = Cipher(AES(key), CBC(vector)).decryptor()
            padded = decryptor.update(base64.b64decode(signature, validate=True)) + decryptor.finalize()
            unpadder = PKCS7(128).unpadder()
            return hmac.compare_digest(unpadder.update(padded) + unpadder.finalize(), body)
        except ValueError:
            return False


def callback_hash(secret: str, transaction: Mapping[str, Any]) -> str:
    """The `hash` of a callback: base64 of the HMAC-SHA256 of the compact JSON of its transaction."""
    text = json.dumps(transaction, separators=(",", ":"))
    return base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()).decode()
