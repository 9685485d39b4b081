"""Files with secrets in them: written whole or not at all, readable by their owner only."""

from __future__ import annotations

import json
import os
from pathlib import Path


def is_private(path: Path) -> bool:
    """Whether only the file's owner has rights on it; the group of a file of root's may read it, too.

    An orchestrator mounts a secret as a file of root that the group of the process may read.
    """
    found = path.stat()
    is_mounted = found.st_uid == 0 != os.getuid()
    return not found.st_mode & (0o037 if is_mounted else 0o077)


def write_private(path: Path, document: object) -> None:
    """Replace the file at `path` by `document` as JSON; a reader sees the old content or the new one, never a part."""
    new_file = path.with_suffix(".new")
    with os.fdopen(os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    new_file.replace(path)
