"""Airtel's cryptography: its RSA key, encrypted PINs, signed requests, and the callback's hash."""

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
    """The provider's RSA key: publishes the public key and decrypts with the private one."""

    def __init__(self, private_key: RSAPrivateKey) -> None:
        self._private_key = private_key

    @classmethod
    def generate(cls) -> "KeyPair":
        """Generate a key."""
        return cls(generate_private_key(65537, KEY_BITS))

    @classmethod
    def load(cls, text: str) -> "KeyPair":
        """Load a key from the text that `dumped` returned."""
        key = load_der_private_key(base64.b64decode(text), None)
        assert isinstance(key, RSAPrivateKey)
        return cls(key)

    def dumped(self) -> str:
        """Returns the private key as text, for the book."""
        der = self._private_key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        return base64.b64encode(der).decode()

    def published(self) -> str:
        """Returns the public key for clients: base64 of its SubjectPublicKeyInfo."""
        der = self._private_key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(der).decode()

    def decrypt(self, text: str) -> bytes:
        """Decrypt base64 of RSA with PKCS#1 v1.5 padding; raises ValueError when it is not for this key."""
        return self._private_key.decrypt(base64.b64decode(text, validate=True), PKCS1v15())

    def is_signed(self, body: bytes, signature: str, wrapped_key: str) -> bool:
        """Whether `x-signature` is this body, encrypted with the AES key and vector in `x-key`."""
        try:
            key, vector = (base64.b64decode(part, validate=True) for part in self.decrypt(wrapped_key).split(b":"))
            decryptor = Cipher(AES(key), CBC(vector)).decryptor()
            padded = decryptor.update(base64.b64decode(signature, validate=True)) + decryptor.finalize()
            unpadder = PKCS7(128).unpadder()
            return hmac.compare_digest(unpadder.update(padded) + unpadder.finalize(), body)
        except ValueError:
            return False


def callback_hash(secret: str, transaction: Mapping[str, Any]) -> str:
    """Returns the `hash` of a callback: base64 of the HMAC-SHA256 of the compact JSON of its transaction."""
    text = json.dumps(transaction, separators=(",", ":"))
    return base64.b64encode(hmac.new(secret.encode(), text.encode(), hashlib.sha256).digest()).decode()
