"""The keys of the house: rings of named keys in one file, where the newest key makes and every key opens."""

from __future__ import annotations

import base64
import json
import os
import secrets
import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_KEY_BYTES = 32


class Ring(StrEnum):
    """What a ring's keys are for. No key ever serves two purposes."""

    TOKENS = "tokens"
    SIGNING = "signing"
    DIGESTS = "digests"
    SEALING = "sealing"


@dataclass(frozen=True, slots=True)
class HouseKey:
    """One key: its public id and its 32 secret bytes, which never show in a repr."""

    id: str
    material: bytes

    def __repr__(self) -> str:
        return f"HouseKey({self.id})"


class Keyring:
    """All rings of one key file.

    The file is JSON: `{"tokens": [{"id": ..., "key": base64}, ...], ...}`, newest last. A key that is not known in memory
    is looked for in the file once more, so that a rotation on another process or machine is followed without a restart.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._rings: dict[Ring, dict[str, HouseKey]] = {}
        self._read_at_mtime_ns = 0
        self._read()

    @classmethod
    def create(cls, path: Path) -> Keyring:
        """Write a new file with one key in each ring, readable by its owner only. Leaves an existing file alone."""
        document = {ring.value: [_fresh_key()] for ring in Ring}
        try:
            _write(path, document, exclusive=True)
        except FileExistsError:
            pass
        return cls(path)

    def newest(self, ring: Ring) -> HouseKey:
        """The key that makes new things."""
        self._follow_file()
        return next(reversed(self._rings[ring].values()))

    def find(self, ring: Ring, key_id: str) -> HouseKey | None:
        """The key named `key_id`, None when there is none."""
        if key_id not in self._rings[ring]:
            self._follow_file()
        return self._rings[ring].get(key_id)

    def all_materials(self, ring: Ring) -> list[bytes]:
        """The secret bytes of every key of a ring, oldest first: the order that itsdangerous wants."""
        self._follow_file()
        return [key.material for key in self._rings[ring].values()]

    def add_keys(self) -> dict[Ring, str]:
        """Add a new key to every ring, which makes it the newest; give the new ids."""
        with self._lock:
            document = json.loads(self._path.read_text())
            for ring in Ring:
                document[ring.value].append(_fresh_key())
            _write(self._path, document, exclusive=False)
        self._read()
        return {ring: self.newest(ring).id for ring in Ring}

    def drop_old_keys(self) -> None:
        """Keep only the newest key of every ring. Whatever an old key made can no longer be opened."""
        with self._lock:
            document = {name: keys[-1:] for name, keys in json.loads(self._path.read_text()).items()}
            _write(self._path, document, exclusive=False)
        self._read()

    def _follow_file(self) -> None:
        if self._path.stat().st_mtime_ns != self._read_at_mtime_ns:
            self._read()

    def _read(self) -> None:
        with self._lock:
            mtime_ns = self._path.stat().st_mtime_ns
            document = json.loads(self._path.read_text())
            self._rings = {
                ring: {
                    entry["id"]: HouseKey(entry["id"], base64.b64decode(entry["key"])) for entry in document[ring.value]
                }
                for ring in Ring
            }
            self._read_at_mtime_ns = mtime_ns


def _fresh_key() -> dict[str, str]:
    return {"id": secrets.token_hex(4), "key": base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()}


def _write(path: Path, document: object, *, exclusive: bool) -> None:
    """Write the file whole or not at all: a reader never sees half a ring."""
    if exclusive:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(document, file, indent=1)
        return
    beside = path.with_suffix(".new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(document, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
