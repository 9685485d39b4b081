"""No file of an archive costs its reader more than four times what a plain one of its size costs (P31).

Run with `-s`, the test prints a row of the table of `docs/RELIABILITY.md`.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from tests.support.costs import LIMIT, worst_ratio
from ussd_server.services.operations.months import verify_month
from ussd_server.status import ServiceError
from ussd_server.values import new_id_floor

SIZE = 256 * 1024
KEYS = {
    "transactions": "id",
    "transaction_events": "transaction_id",
    "ledger_transfers": "transaction_id",
    "events": "object_id",
}
ID = new_id_floor(datetime(2026, 10, 3, tzinfo=UTC))


def write_archive(folder: Path, heading: str, unit: str) -> None:
    """Write an archive whose transactions are a repeated unit; its checksums are right."""
    folder.mkdir()
    texts = {name: f"{key}\n" for name, key in KEYS.items()}
    texts["transactions"] = heading + unit * ((SIZE - len(heading)) // len(unit))
    sums = []
    for name, text in texts.items():
        (folder / f"{name}.csv").write_text(text, encoding="utf-8")
        sums.append(f"{hashlib.sha256(text.encode()).hexdigest()}  {name}.csv\n")
    (folder / "SHA256SUMS").write_text("".join(sums))


def cost(folder: Path) -> float:
    began = time.thread_time()
    with suppress(ServiceError):
        verify_month(folder)
    return (time.thread_time() - began) * 1000


def test_an_archive_costs_no_more_than_four_plain_ones(tmp_path: Path) -> None:
    plain = tmp_path / "plain" / "2026-10"
    plain.parent.mkdir()
    heading = "id" + ",text" * 50 + "\n"
    write_archive(plain, heading, ID + ",abcdefgh" * 50 + "\n")
    assert verify_month(plain)["transactions"] > 500, "a plain archive is whole"
    others = {
        "short rows": (heading, f"{ID}\n"), "empty cells": (heading, ID + "," * 50 + "\n"),
        "empty lines": (heading, "\n"),
        "quotes": (heading, f'{ID},"a""b"\n'), "broken lines": (heading, f'{ID},"\n\n\n\n"\n'),
        "200 columns": ("id" + "," * 199 + "\n", ID + "," * 199 + "\n"),
        "4,000 columns": ("id" + "".join(f",c{n}" for n in range(4000)) + "\n", f"{ID}\n"),
        "columns": ("id" + "," * (SIZE // 2) + "\n", f"{ID}\n"), "one line": (heading, "a"),
        "one open quotation mark": (heading + '"', "a\n"), "two columns": ("id,text\n", f"{ID},\n"),
    }  # fmt: skip
    calls = []
    for number, (name, (first, unit)) in enumerate(others.items()):
        folder = tmp_path / str(number) / "2026-10"
        folder.parent.mkdir()
        write_archive(folder, first, unit)
        calls.append((name, partial(cost, folder)))
    ratio, name = worst_ratio(partial(cost, plain), calls)
    print(f"| CSV of 256 KiB, an archive of a month | {ratio:.1f} | {name} |")
    assert ratio <= LIMIT, name


@pytest.mark.parametrize(("heading", "reason"), [("id,a\n", "another length"), ("a,b\n", "other columns")])
def test_a_file_of_another_shape_is_no_file_of_an_archive(tmp_path: Path, heading: str, reason: str) -> None:
    write_archive(tmp_path / "2026-10", heading, f"{ID}\n")
    with pytest.raises(ServiceError, match=reason):
        verify_month(tmp_path / "2026-10")
