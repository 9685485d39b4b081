"""No column layout of a statement costs more than four plain ones, and reading pauses (P31).

With `-s` the tests print what they measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.services.reconciliation.reading.test_layouts import preview
from tests.services.reconciliation.statement_files import reconcile
from tests.support.costs import LIMIT, Stretches, worst_ratio
from ussd_server.bootstrap import Services
from ussd_server.status import ServiceError

SIZE = 128 * 1024
LONGEST_STRETCH_MS = 15
COLUMNS = {"id": "a", "reference": "b", "date": "c", "amount": "d", "fee": "e", "balance": "f", "sender": "g"}
HEADING = ",".join(COLUMNS.values())
WIDE = HEADING + "".join(f",h{number}" for number in range(249))
LINE = "31000000001,x,2026-11-20 09:05:10,-5000,1,,256770000101"
pytestmark = [pytest.mark.slow, pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)]


def files() -> Iterator[tuple[str, str, str]]:
    """Each kind of file: its name, its headings and the line that it repeats."""
    yield "256 empty cells", WIDE, LINE + "," * 249
    yield "256 totals", WIDE, "T,,x" + ",1" * 252
    yield "256 dates", WIDE, "T,,x" + ",1/1/1" * 252
    yield "256 cells that may be dates", WIDE, "T,,x" + ",a-b-c 1:1" * 252
    yield "256 words", WIDE, "T,,x" + ",a" * 252
    yield "headings of 100 letters", ",".join(["é" * 100] * 256), LINE
    yield "rows of headings", "x", ",".join(["aé" * 30] * 255)
    yield "headings", HEADING, HEADING
    yield "numbers of spaces", HEADING, "31,x,2026-11-20," + f"-{' ' * 61}x," * 3
    yield "dates of spaces", HEADING, f"31,x,2026-11-20 0{' ' * 50}9,5000,1,,1"
    yield "dates of words", HEADING, f"31,x,1{' a' * 30},5000,1,,1"
    yield "brackets", HEADING, '31,x,2026-11-20 09:05:10,"(UGX 5,000.00)",1,,1'
    yield "thousands with spaces", HEADING, "31,x,20 Nov 2026 9:05:10 PM,1 000 000,1 000,1 000 000,FRI:1/MSISDN"
    yield "dates without a day", HEADING, "31,x,31/02/2026,5000,1,,1"
    yield "ids of digits", HEADING, "3" * 30_000 + LINE
    yield "parties of digits", HEADING, LINE + "2" * 30_000
    yield "both signs", HEADING, "31,x,2026-11-20 09:05:10,-5000,-1,-1,1"
    yield "totals", HEADING, "Total,,,5000,1,1,"
    yield "quotation marks", HEADING, '"a""b",,,,,,'
    yield "short rows", HEADING, ",,1"


def content(heading: str, line: str) -> bytes:
    lines = (SIZE - len(heading.encode())) // (len(line.encode()) + 1)
    return (heading + "\n" + (line + "\n") * max(1, lines)).encode()


def test_a_layout_costs_no_more_than_four_plain_ones(services: Services) -> None:
    def call(file: bytes) -> float:
        began = time.thread_time()
        preview(services, file, "mtn", COLUMNS)
        return (time.thread_time() - began) * 1000

    plain = content(HEADING, LINE)
    assert preview(services, plain, "mtn", COLUMNS).problem is None
    calls = [(name, partial(call, content(heading, line))) for name, heading, line in files()]
    ratio, name = worst_ratio(partial(call, plain), calls)
    print(f"| CSV of 128 KiB, a statement in columns that an operator names | {ratio:.1f} | {name} |")
    assert ratio <= LIMIT, name


def test_no_stretch_of_a_statement_without_a_pause_is_long(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    stretches = Stretches(monkeypatch)

    def read(work: Callable[[], object]) -> None:
        try:
            work()
        except ServiceError:
            return

    longest = (0.0, "")
    for name, heading, line in (("lines", HEADING, LINE), *files()):
        file = content(heading, line)
        for kind, work in (
            ("preview", partial(preview, services, file, "mtn", COLUMNS)),
            ("import", partial(reconcile, services, file, "mtn", is_dry_run=True)),
        ):
            took = stretches.of(partial(read, work))
            if took > LONGEST_STRETCH_MS:
                took = min(stretches.of(partial(read, work)) for _ in range(5))
            longest = max(longest, (took, f"{name}, {kind}"))
    print(f"longest stretch of a statement without a pause: {longest[0]:.1f} ms ({longest[1]})")
    assert longest[0] <= LONGEST_STRETCH_MS, longest
