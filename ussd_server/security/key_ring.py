"""The keys of the secrets file: master keys in rings, what they encrypt and sign, and the reference key.

The newest key of a ring signs or encrypts; every key verifies. The reference key is never rotated, because providers
keep the names that are derived from it."""

from __future__ import annotations

import hmac
import os
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ussd_server.logs import Logger
from ussd_server.security.secrets_file import (
    MasterKey,
    Ring,
    changed_secrets_file,
    create_secrets_file,
    fresh_key,
    read_secrets_file,
)

log = Logger(__name__)

_NONCE_BYTES = 12

# Prepared keys are cached, because preparing one takes longer than decrypting a secret.
_cipher = lru_cache(maxsize=16)(AESGCM)
# A check of the file takes 12 us, and a USSD step needs several keys.
CHECK_SECONDS = 0.1

# Inode, size, and the times of the last change of content and of rights, in nanoseconds.
_FileState = tuple[int, int, int, int]


class Keyring:
    """All keys of one key file.

    The file is read again when it has changed, so that a renewal by another process is followed without a restart. A
    file with another reference key is not followed.
    """

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises OSError or ValueError when it cannot be read or is no complete key file."""
        self._path = path
        self._lock = threading.Lock()
        self._rings: dict[Ring, dict[str, MasterKey]] = {}
        self._reference: MasterKey | None = None
        self._read_state: _FileState | None = None
        self._is_unreadable = False
        self._next_check = 0.0
        self._read()

    @classmethod
    def create(cls, path: Path) -> Keyring:
        """The keys of a file, which is written first if there is none (`create_secrets_file`)."""
        create_secrets_file(path)
        return cls(path)

    @property
    def reference_key(self) -> bytes:
        """The secret bytes of the key from which the names of payments at providers are derived."""
        assert self._reference is not None
        return self._reference.material

    @property
    def reference_check_value(self) -> str:
        """A value that identifies the reference key without revealing it."""
        return hmac.digest(self.reference_key, b"check-value", "sha256").hex()[:16]

    def derived_uuid(self, content: str) -> str:
        """An HMAC under the reference key, written as a UUID of version 4, which is what MTN takes."""
        digest = hmac_sha256(self.reference_key, content.encode())
        return str(uuid.UUID(bytes=digest[:16], version=4))

    def newest(self, ring: Ring) -> MasterKey:
        """The key that makes new things."""
        self._follow_file_soon()
        return next(reversed(self._rings[ring].values()))

    def find(self, ring: Ring, key_id: str) -> MasterKey | None:
        """The key named `key_id`, None when there is none."""
        if key_id not in self._rings[ring]:
            self._follow_file()
        elif ring is Ring.TOKENS:
            # A dropped key of the other rings has nothing left to read; a token of one must be refused.
            self._follow_file_soon()
        return self._rings[ring].get(key_id)

    def all_materials(self, ring: Ring) -> list[bytes]:
        """The secret bytes of every key of a ring, oldest first: the order that itsdangerous wants."""
        self._follow_file_soon()
        return [key.material for key in self._rings[ring].values()]

    def newest_ids(self) -> dict[Ring, str]:
        return {ring: self.newest(ring).id for ring in Ring}

    def add_keys(self) -> None:
        """Add a new key to every ring, which makes it the newest."""
        with changed_secrets_file(self._path) as document:
            for ring in Ring:
                document[ring.value].append(fresh_key())
        self._read()

    def drop_keys_before(self, ids: Mapping[Ring, str]) -> None:
        """Drop every key that is older than the one named for its ring, and with it what only that key can read."""
        with changed_secrets_file(self._path) as document:
            for ring, key_id in ids.items():
                keys = document[ring.value]
                document[ring.value] = keys[[key["id"] for key in keys].index(key_id) :]
        self._read()

    def _follow_file_soon(self) -> None:
        """Follow the file, but check it ten times a second at most."""
        now = time.monotonic()
        if now >= self._next_check:
            self._next_check = now + CHECK_SECONDS
            self._follow_file()

    def _follow_file(self) -> None:
        """Read the file again when it has changed. A running service keeps its keys while it cannot be read."""
        try:
            if _state_of(self._path) != self._read_state:
                self._read()
                self._note(None)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            self._note(error)

    def _note(self, error: Exception | None) -> None:
        """Log that the file cannot be read, once until it can be read again."""
        with self._lock:
            is_news, self._is_unreadable = error is not None and not self._is_unreadable, error is not None
        if is_news:
            log.error("the secrets file cannot be read: the present keys stay in use", error=type(error).__name__)

    def _read(self) -> None:
        with self._lock:
            # The state is taken before the content: a file that was read while it was being written is read again once
            # it has changed.
            self._read_state = _state_of(self._path)
            rings, reference = read_secrets_file(self._path)
            if self._reference not in (None, reference):
                raise ValueError("the secrets file has another reference key than before")
            self._rings, self._reference = rings, reference


def _state_of(path: Path) -> _FileState:
    """A value that changes with the file's content or rights."""
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


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
        return [hmac_sha256(material, text) for material in self._keyring.all_materials(Ring.DIGESTS)]

    def keyed_digest(self, content: bytes) -> str:
        """The id of the newest master key, and the HMAC of `content` under it."""
        master_key = self._keyring.newest(Ring.DIGESTS)
        return f"{master_key.id}:{hmac_sha256(master_key.material, content).hex()}"

    def has_digest(self, content: bytes, digest: str) -> bool:
        """Whether `keyed_digest` made `digest` of `content`, under a master key that still exists."""
        key_id, _, written = digest.partition(":")
        master_key = self._keyring.find(Ring.DIGESTS, key_id)
        if master_key is None:
            return False
        expected = hmac_sha256(master_key.material, content).hex()
        return hmac.compare_digest(expected.encode(), written.encode())

    def renewed_digest(self, content: bytes, digest: str) -> str:
        """The keyed digest of `content` under the newest master key. A digest that is wrong stays wrong."""
        return self.keyed_digest(content) if self.has_digest(content, digest) else digest

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
        master_key = self._keyring.find(Ring.SEALING, master_key_of(encrypted))
        if master_key is None:
            raise DecryptionError
        nonce_and_text = bytes(encrypted).partition(b":")[2]
        nonce, text = nonce_and_text[:_NONCE_BYTES], nonce_and_text[_NONCE_BYTES:]
        try:
            return _cipher(master_key.material).decrypt(nonce, text, _bound_to(client_id, key_id)).decode()
        except (InvalidTag, ValueError):
            raise DecryptionError from None


def master_key_of(encrypted: bytes) -> str:
    """The id of the master key that encrypted a secret."""
    return bytes(encrypted).partition(b":")[0].decode("ascii", "replace")


class DecryptionError(Exception):
    """A secret cannot be decrypted in its row."""


def _digest(master_key: MasterKey, secret: str, key_id: str) -> bytes:
    # A header may contain a lone surrogate; it must be refused as a wrong secret, not raise.
    return hmac_sha256(master_key.material, f"apisecret\0{key_id}\0{secret}".encode("utf-8", "surrogatepass"))


def hmac_sha256(key: bytes, content: bytes) -> bytes:
    """HMAC-SHA256. Copying a prepared HMAC takes 2 us; OpenSSL would prepare the key anew in 9 us."""
    prepared = _prepared_hmac(key).copy()
    prepared.update(content)
    return prepared.digest()


@lru_cache(maxsize=16)
def _prepared_hmac(key: bytes) -> hmac.HMAC:
    return hmac.new(key, digestmod="sha256")


def _key_prefix(master_key: MasterKey) -> bytes:
    return master_key.id.encode() + b":"


def _bound_to(client_id: str, key_id: str) -> bytes:
    return f"{client_id}/{key_id}".encode()


def call_secrets(keyring: Keyring, client_id: str) -> Sequence[bytes]:
    """Return the secrets that sign requests to a client's server, newest first: one for each master key."""
    materials = reversed(keyring.all_materials(Ring.SIGNING))
    return [hmac.digest(material, f"client-server\0{client_id}".encode(), "sha256") for material in materials]
