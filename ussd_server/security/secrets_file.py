"""The secrets file: the keys of a service, as JSON that only its owner reads.

`{"tokens": [{"id": ..., "key": base64}, ...], ..., "reference": {"id": ..., "key": base64}}`, newest last.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

_KEY_BYTES = 32
_REFERENCE = "reference"
_INCOMPLETE = "the secrets file is not a complete JSON document"


class Ring(StrEnum):
    """The purpose of a ring's keys. No key ever serves two purposes."""

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


def create_secrets_file(path: Path) -> None:
    """Write a new file with all keys; an existing file stays as it is. Raises OSError when it cannot be written."""
    with _locked(path):
        if not path.exists():
            rings = {ring.value: [fresh_key()] for ring in Ring}
            write_private(path, {**rings, _REFERENCE: fresh_key()})


def read_secrets_file(path: Path) -> tuple[dict[Ring, dict[str, MasterKey]], MasterKey]:
    """Return the rings of a file, by the ids of their keys, and its reference key.

    Raises OSError or ValueError when the file cannot be read or is no complete key file.
    """
    document = _document_of(path.read_bytes())
    return _rings_of(document), _reference_of(document)


@contextmanager
def changed_secrets_file(path: Path) -> Iterator[dict[str, list[dict[str, str]]]]:
    """Yield the file's content, locked for other processes: two writers could lose a key, and with it secrets."""
    with _locked(path):
        document = json.loads(path.read_text())
        yield document
        write_private(path, document)


def fresh_key() -> dict[str, str]:
    return {"id": secrets.token_hex(4), "key": base64.b64encode(secrets.token_bytes(_KEY_BYTES)).decode()}


def is_private(path: Path) -> bool:
    """Whether only the file's owner has rights on it; the group of a file of root's may read it, too.

    An orchestrator mounts a secret as a file of root that the group of the process may read.
    """
    status = path.stat()
    is_mounted = status.st_uid == 0 != os.getuid()
    return not status.st_mode & (0o037 if is_mounted else 0o077)


def write_private(path: Path, document: object) -> None:
    """Replace the file at `path` by `document` as JSON; a reader sees the old content or the new one, never a part."""
    new_file = path.with_suffix(".new")
    with os.fdopen(os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    new_file.replace(path)


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
        raise ValueError("the secrets file has no reference key; restore it from a copy")
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


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with os.fdopen(os.open(path.with_suffix(".lock"), os.O_WRONLY | os.O_CREAT, 0o600), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
