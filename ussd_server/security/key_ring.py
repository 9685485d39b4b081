"""The keys of one file: master keys in rings, and the reference key.

The newest key of a ring signs or encrypts; every key verifies. The reference key is never rotated, because providers
keep the names that are derived from it."""

from __future__ import annotations

import base64
import fcntl
import hmac
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ussd_server.logs import Logger
from ussd_server.security.private_file import write_private

log = Logger(__name__)

_KEY_BYTES = 32
_REFERENCE = "reference"
_INCOMPLETE = "the secrets file is not a complete JSON document"

# Inode, size, and the times of the last change of content and of rights, in nanoseconds.
_FileState = tuple[int, int, int, int]


class Ring(StrEnum):
    """What a ring's keys are for. No key ever serves two purposes."""

    TOKENS = "tokens"
    SIGNING = "signing"
    DIGESTS = "digests"
    SEALING = "sealing"


@dataclass(frozen=True, slots=True)
class MasterKey:
    """One key: its public id and its 32 secret bytes, which never show in a repr."""

    id: str
    material: bytes

    def __repr__(self) -> str:
        return f"MasterKey({self.id})"


class Keyring:
    """All keys of one key file.

    The file is JSON: `{"tokens": [{"id": ..., "key": base64}, ...], ..., "reference": {"id": ..., "key": base64}}`,
    newest last. The file is read again when it has changed, so that a renewal by another process is followed without a
    restart. A file with another reference key is not followed.
    """

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises OSError or ValueError when it cannot be read or is no complete key file."""
        self._path = path
        self._lock = threading.Lock()
        self._rings: dict[Ring, dict[str, MasterKey]] = {}
        self._reference: MasterKey | None = None
        self._read_state: _FileState | None = None
        self._is_unreadable = False
        self._read()

    @classmethod
    def create(cls, path: Path) -> Keyring:
        """Write a new file with all keys, readable by its owner only.

        An existing file keeps its keys, and receives the reference key if it has none.
        """
        if not path.exists():
            with _locked(path):
                if not path.exists():
                    rings = {ring.value: [_fresh_key()] for ring in Ring}
                    write_private(path, {**rings, _REFERENCE: _fresh_key()})
        cls.add_reference_key(path)
        return cls(path)

    @staticmethod
    def add_reference_key(path: Path) -> bool:
        """Add the reference key to a file of an earlier version; return whether it had none.

        Raises OSError or ValueError when the file cannot be read or is no complete key file.
        """
        if _REFERENCE in _document_of(path.read_bytes()):
            return False
        with _locked(path):
            document = _document_of(path.read_bytes())
            if _REFERENCE in document:
                return False
            _rings_of(document)
            write_private(path, {**document, _REFERENCE: _fresh_key()})
        return True

    @property
    def reference_key(self) -> bytes:
        """The secret bytes of the key from which the names of payments at providers are derived."""
        assert self._reference is not None
        return self._reference.material

    def newest(self, ring: Ring) -> MasterKey:
        """The key that makes new things."""
        self._follow_file()
        return next(reversed(self._rings[ring].values()))

    def find(self, ring: Ring, key_id: str) -> MasterKey | None:
        """The key named `key_id`, None when there is none."""
        if key_id not in self._rings[ring]:
            self._follow_file()
        return self._rings[ring].get(key_id)

    def all_materials(self, ring: Ring) -> list[bytes]:
        """The secret bytes of every key of a ring, oldest first: the order that itsdangerous wants."""
        self._follow_file()
        return [key.material for key in self._rings[ring].values()]

    def newest_ids(self) -> dict[Ring, str]:
        """The id of the newest key of every ring."""
        return {ring: self.newest(ring).id for ring in Ring}

    def add_keys(self) -> None:
        """Add a new key to every ring, which makes it the newest."""
        with self._changed() as document:
            for ring in Ring:
                document[ring.value].append(_fresh_key())

    def drop_keys_before(self, ids: Mapping[Ring, str]) -> None:
        """Drop every key that is older than the one named for its ring, and with it what only that key can read."""
        with self._changed() as document:
            for ring, key_id in ids.items():
                keys = document[ring.value]
                document[ring.value] = keys[[key["id"] for key in keys].index(key_id) :]

    @contextmanager
    def _changed(self) -> Iterator[dict[str, list[dict[str, str]]]]:
        """Yield the file's content, locked for other processes: two writers could lose a key, and with it secrets."""
        with _locked(self._path):
            document = json.loads(self._path.read_text())
            yield document
            write_private(self._path, document)
        self._read()

    def _follow_file(self) -> None:
        """Read the file again when it has changed. A running service keeps its keys while it cannot be read."""
        try:
            if _state_of(self._path) != self._read_state:
                self._read()
                self._note(None)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as trouble:
            self._note(trouble)

    def _note(self, trouble: Exception | None) -> None:
        """Log that the file cannot be read, once until it can be read again."""
        with self._lock:
            is_news, self._is_unreadable = trouble is not None and not self._is_unreadable, trouble is not None
        if is_news:
            log.error("the secrets file cannot be read: the present keys stay in use", error=type(trouble).__name__)

    def _read(self) -> None:
        with self._lock:
            # The state is taken before the content: a file that was read while it was being written is read again once
            # it has changed.
            self._read_state = _state_of(self._path)
            document = _document_of(self._path.read_bytes())
            rings, reference = _rings_of(document), _reference_of(document)
            if self._reference not in (None, reference):
                raise ValueError("the secrets file has another reference key than before")
            self._rings, self._reference = rings, reference


def _state_of(path: Path) -> _FileState:
    """What changes with the file's content or rights."""
    state = path.stat()
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


def _document_of(content: bytes) -> dict[str, Any]:
    """The JSON object of a key file. Raises ValueError for anything else."""
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise ValueError(_INCOMPLETE)
    return document


def _rings_of(document: Mapping[str, Any]) -> dict[Ring, dict[str, MasterKey]]:
    """The rings of a key file. Raises ValueError unless every ring has keys, and every key has 32 bytes."""
    try:
        rings = {ring: {entry["id"]: _key_of(entry) for entry in document[ring.value]} for ring in Ring}
    except (LookupError, TypeError):
        raise ValueError(_INCOMPLETE) from None
    if not all(rings.values()):
        raise ValueError("the secrets file has a ring without keys")
    return rings


def _reference_of(document: Mapping[str, Any]) -> MasterKey:
    """The reference key of a key file. Raises ValueError unless there is one of 32 bytes."""
    if _REFERENCE not in document:
        raise ValueError("the secrets file has no reference key; `ussd-server secrets create` with its path adds one")
    try:
        return _key_of(document[_REFERENCE])
    except (LookupError, TypeError):
        raise ValueError(_INCOMPLETE) from None


def _key_of(entry: Mapping[str, str]) -> MasterKey:
    try:
        key = MasterKey(entry["id"], base64.b64decode(entry["key"]))
    except ValueError:
        raise ValueError(_INCOMPLETE) from None
    if len(key.material) != _KEY_BYTES:
        raise ValueError("the secrets file has a key that is not 32 bytes long")
    return key


def _fresh_key() -> dict[str, str]:
    return {"id": secrets.token_hex(4), "key": base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()}


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with os.fdopen(os.open(path.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT, 0o600), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def call_secrets(keyring: Keyring, client_id: str) -> Sequence[bytes]:
    """Return the secrets that sign requests to a client's server, newest first: one for each master key."""
    materials = reversed(keyring.all_materials(Ring.SIGNING))
    return [hmac.digest(material, f"client-server\0{client_id}".encode(), "sha256") for material in materials]
