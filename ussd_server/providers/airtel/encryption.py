"""Airtel's public key: it encrypts the PIN of disbursements and signs bodies."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from typing import Literal

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, OAEP, AsymmetricPadding, PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

PinPadding = Literal["pkcs1", "oaep"]
_PADDINGS: dict[PinPadding, AsymmetricPadding] = {
    "pkcs1": PKCS1v15(),
    "oaep": OAEP(mgf=MGF1(SHA256()), algorithm=SHA256(), label=None),
}
_KEY_BYTES = 32
_BLOCK_BYTES = 16


@dataclass(frozen=True, slots=True)
class AirtelKey:
    """Airtel's public RSA key, which encrypts and signs."""

    key: RSAPublicKey

    def encrypt(self, secret: bytes, pin_padding: PinPadding = "pkcs1") -> str:
        """A secret that only Airtel can read, in base64."""
        return base64.b64encode(self.key.encrypt(secret, _PADDINGS[pin_padding])).decode()

    def signature_headers(self, body: bytes) -> dict[str, str]:
        """The headers that sign exactly these bytes: the body under a new AES key, and that key for Airtel alone."""
        key, iv = os.urandom(_KEY_BYTES), os.urandom(_BLOCK_BYTES)
        padder = padding.PKCS7(_BLOCK_BYTES * 8).padder()
        encryptor = Cipher(algorithms.AES(key), modes.CBC(iv)).encryptor()
        encrypted = encryptor.update(padder.update(body) + padder.finalize()) + encryptor.finalize()
        return {
            "x-signature": base64.b64encode(encrypted).decode(),
            "x-key": self.encrypt(base64.b64encode(key) + b":" + base64.b64encode(iv)),
        }


def read_key(encoded: object) -> AirtelKey | None:
    """The key in Airtel's reply (base64 of a DER public key), None when it is not an RSA key."""
    try:
        key = load_der_public_key(base64.b64decode(str(encoded), validate=True))
    except (ValueError, UnsupportedAlgorithm):
        return None
    return AirtelKey(key) if isinstance(key, RSAPublicKey) else None
