"""Writes the table of error codes in docs/API.md, from `ussd_server/status.py`."""

from __future__ import annotations

import re
from pathlib import Path

from ussd_server.status import Code

PAGE = Path(__file__).resolve().parents[2] / "docs" / "API.md"
_PLACE = re.compile(r"(?<=<!-- error codes -->\n).*?(?=<!-- end -->)", re.DOTALL)


def with_error_codes(page: str) -> str:
    """Return the page with its table of error codes made anew."""
    rows = [f"| `{code.error}` | {code.http_status} | {code.when} | {code.neighbour} |" for code in Code]
    head = ("| code | status | when | not to be confused with |", "|---|---|---|---|")
    table = "\n".join(["", *head, *rows, "", ""])
    return _PLACE.sub(lambda _: table, page)


def write_error_codes() -> None:
    """Replace the table."""
    PAGE.write_text(with_error_codes(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
