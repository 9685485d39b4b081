"""Files of other projects are those that the list names."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
STATIC = CHECKOUT / "ussd_server" / "console" / "static"


def test_every_vendored_file_has_the_checksum_of_the_list() -> None:
    listed = json.loads((STATIC / "VENDORED.json").read_text(encoding="utf-8"))
    assert listed
    for entry in listed:
        assert entry["version"]
        assert entry["licence"]
        assert sha256((CHECKOUT / entry["file"]).read_bytes()).hexdigest() == entry["sha256"], entry["file"]
    assert {path.name for path in STATIC.glob("*.min.*")} <= {Path(entry["file"]).name for entry in listed}
