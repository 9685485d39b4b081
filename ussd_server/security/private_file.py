"""Files with secrets in them: written whole or not at all, readable by their owner only."""

from __future__ import annotations

import json
import os
from pathlib import Path


def write_private(path: Path, document: object) -> None:
    """Replace the file at `path` by `document` as JSON; a reader sees the old content or the new one, never a part."""
    new_file = path.with_suffix(".new")
    with os.fdopen(os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    new_file.replace(path)
