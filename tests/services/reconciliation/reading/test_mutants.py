"""True movements in every layout, spoiled in every way that people report: read right or refused, never misread."""

from __future__ import annotations

import csv
import io
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from io import BytesIO
from random import Random

import pytest

from simulators.layouts import IN, LAYOUTS, OUT, REVERSAL, MovedLine, TableLayout, grouped, plain, with_balances
from simulators.statements import SEPARATORS, StatementForm, write_statement
from ussd_server.providers.registry import PACKAGES
from ussd_server.providers.statement_format import DateOrder, LineStatus
from ussd_server.services.reconciliation.reading.conventions import FileConventions
from ussd_server.services.reconciliation.reading.statement_lines import StatementReader
from ussd_server.spreadsheets.rows import SpreadsheetError
from ussd_server.values import KAMPALA

# 10,000 take a minute: STATEMENT_MUTANTS=10000.
MUTANTS = int(os.environ.get("STATEMENT_MUTANTS", "1500"))
FORMATS = {package.name: package.statement for package in PACKAGES if package.statement}
STATUSES = {"mtn": ("Successful", "Failed"), "airtel": ("Transaction Success", "Transaction Failed")}
STARTED_AT = datetime(2026, 11, 20, 6, tzinfo=UTC)
FORMS = [
    StatementForm(separator=separator, dates=dates)
    for separator in SEPARATORS
    for dates in ("iso", "day-first", "month-first", "minutes")
]


def _beside(movement: MovedLine, _: int, date: str) -> tuple[str, ...]:
    amount = plain(abs(movement.cents))
    sides = (amount, "") if movement.cents > 0 else ("", amount)
    return (movement.receipt, date, "Some service", movement.status, amount, *sides, plain(movement.balance_cents))


def _last(movement: MovedLine, _: int, date: str) -> tuple[str, ...]:
    kind = {IN: "Deposit", OUT: "Cash out", REVERSAL: "Refund"}[movement.kind]
    return movement.receipt, date, movement.status, kind, "Okello John", plain(abs(movement.cents))


def _brackets(movement: MovedLine, _: int, date: str) -> tuple[str, ...]:
    amount = grouped(abs(movement.cents))
    return movement.receipt, date, "UGX", amount if movement.cents > 0 else f"({amount})", movement.party, "done"


def _indicator(movement: MovedLine, _: int, date: str) -> tuple[str, ...]:
    side = "CR" if movement.cents > 0 else "DR"
    return date, movement.receipt, side, f"UGX {plain(abs(movement.cents))}", movement.status, ""


ALL_LAYOUTS = LAYOUTS | {
    "airtel-beside": TableLayout(
        ("Transaction ID", "Date", "Details", "Status", "Amount", "Credit", "Debit", "Balance"),
        _beside,
        ends_with_total=False,
    ),
    "mtn-last": TableLayout(("Id", "Date", "Status", "Type", "From name", "Amount"), _last, ends_with_total=False),
    "mtn-brackets": TableLayout(
        ("Id", "Date", "Currency", "Amount", "From", "Note"), _brackets, has_failures=False, ends_with_total=False
    ),
    "airtel-indicator": TableLayout(
        ("Date", "Transaction ID", "Dr/Cr", "Amount", "Status", "Remark"), _indicator, ends_with_total=False
    ),
}
AMOUNTS = ("Amount", "Transaction Amount", "Credit", "Debit")


@dataclass
class Statement:
    """A statement: its rows, the indexes of those that are lines, and the movement of each line."""

    name: str
    form: StatementForm
    rows: list[list[str]]
    lines: list[int]
    movements: list[MovedLine]

    @property
    def mark(self) -> str:
        """The separator."""
        return SEPARATORS[self.form.separator]

    def text(self, row: list[str]) -> str:
        """A row as the file has it."""
        return self.mark.join(f'"{cell}"' if set(cell) & {self.mark, "\r"} else cell for cell in row)


def movements(rng: Random, provider: str) -> list[MovedLine]:
    """Some movements; the first came in and the second went out, so that a layout with signs has a minus."""
    found = []
    for number in range(rng.randint(3, 6)):
        kind = (IN, OUT)[number] if number < 2 else rng.choice((IN, OUT, REVERSAL))
        cents = rng.choice((5_000, 30_000, 700, 1_250_000, 99, 9_000, 100_000)) * 100
        has_moved = number < 2 or rng.random() < 0.7
        found.append(
            MovedLine(
                receipt=f"{'32' if provider == 'mtn' else '145'}{number:09}",
                reference=rng.choice(("", "Room 5", "r-77")),
                at=(STARTED_AT + timedelta(hours=number, minutes=rng.randint(0, 59))).timestamp(),
                kind=kind,
                status=STATUSES[provider][not has_moved],
                cents=cents if kind == IN else -cents,
                party=f"25677{rng.randint(1_000_000, 9_999_999)}",
                has_moved=has_moved,
            )
        )
    return with_balances(found)


def written(rng: Random, name: str) -> Statement:
    """A statement of random movements, as the provider writes it."""
    provider, layout, form = name.partition("-")[0], ALL_LAYOUTS[name], rng.choice(FORMS)
    listed = [each for each in movements(rng, provider) if layout.has_failures or each.has_moved]
    text = write_statement(listed, replace(form, separator="comma"), layout).decode()
    rows = list(csv.reader(io.StringIO(text, newline="")))
    first = rows.index(list(layout.headings)) + 1
    return Statement(name, form, rows, list(range(first, first + len(listed))), listed)


def sums(movements: Iterable[MovedLine]) -> Counter[bool]:
    """What came in and what went out, in cents, of what moved."""
    found: Counter[bool] = Counter()
    for each in movements:
        found[each.cents > 0] += abs(each.cents) if each.has_moved else 0
    return found


def read_sums(content: bytes, provider: str, order: DateOrder | None) -> tuple[Counter[bool], dict[str, datetime]]:
    """The sums that are read, and the date of each receipt. Raises SpreadsheetError for a file that is refused."""
    found: Counter[bool] = Counter()
    dates = {}
    for line in StatementReader(FORMATS[provider], "UGX", {}, said=FileConventions(order)).lines(BytesIO(content)):
        # The unsigned reversal of what we do not know counts as money that left.
        found[(line.direction or -1) > 0] += line.amount_cents if line.status is LineStatus.SUCCEEDED else 0
        dates[line.provider_id] = line.at
    return found, dates


# The ways to spoil a statement. Each changes rows, whose cells are still apart, or texts, the lines of the file.


def a_column_moves(rows: list[list[str]], statement: Statement, rng: Random) -> None:
    """A column stands elsewhere, with its heading."""
    first = statement.lines[0] - 1
    # The row of the total keeps its two cells.
    places = range(2 if ALL_LAYOUTS[statement.name].ends_with_total else 0, len(rows[first]))
    place, other = rng.choice(places), rng.choice(places)
    for row in rows[first : first + 1 + len(statement.lines)]:
        row.insert(other, row.pop(place))


def a_cell_is_added(rows: list[list[str]], statement: Statement, rng: Random) -> None:
    row = rows[rng.choice(statement.lines)]
    row.insert(rng.randrange(len(row) + 1), rng.choice(("", "390", "John")))


def a_cell_is_lost(rows: list[list[str]], statement: Statement, rng: Random) -> None:
    row = rows[rng.choice(statement.lines)]
    row.pop(rng.randrange(len(row)))


def lines_change_places(rows: list[list[str]], statement: Statement, rng: Random) -> None:
    one, other = rng.sample(statement.lines, 2)
    rows[one], rows[other] = rows[other], rows[one]


def the_headings_come_again(rows: list[list[str]], statement: Statement, rng: Random) -> None:
    rows.insert(rng.choice(statement.lines), list(ALL_LAYOUTS[statement.name].headings))


def _amount(rows: list[list[str]], statement: Statement, rng: Random) -> tuple[list[str], int]:
    """A row, and the place of one of its amounts."""
    headings = ALL_LAYOUTS[statement.name].headings
    row = rows[rng.choice(statement.lines)]
    places = [headings.index(name) for name in AMOUNTS if name in headings]
    return row, next(place for place in rng.sample(places, len(places)) if row[place])


def a_sign_is_spoiled(rows: list[list[str]], statement: Statement, rng: Random) -> None:
    """A sign is there twice, or in a form that means nothing certain."""
    row, place = _amount(rows, statement, rng)
    text = row[place].strip("-()")
    form = rng.choice(("+-{}", "--{}", "-+{}", "{}-", "(-{})", "-({})", "- -{}", "{} DR", "\u2013{}", "({}", "{}+"))
    row[place] = form.format(text)


def a_minus_looks_different(rows: list[list[str]], statement: Statement, rng: Random) -> None:
    """A minus is written in another way that means the same."""
    for row in (rows[line] for line in statement.lines):
        for place, cell in enumerate(row):
            if cell.startswith("-") and len(cell) > 1:
                row[place] = rng.choice(("\u2212{}", "({})", "UGX -{}", "-UGX {}")).format(cell[1:])


def digits_get_separators(rows: list[list[str]], statement: Statement, rng: Random) -> None:
    """One amount has separators, or decimals, of its own."""
    row, place = _amount(rows, statement, rng)
    text = row[place]
    digits = re.sub(r"\.\d\d\)?$|\D", "", text)
    mark = rng.choice((",", ".", " ", "'", "\u00a0"))
    groups = f"{int(digits):,}".replace(",", mark) if digits else ""
    part = rng.choice(("", "", ".00", ",00", ".00" if mark == "." else ".000"))
    row[place] = f"{'-' if text.startswith(('-', '(')) else ''}{groups}{part}"


def a_date_is_written_otherwise(rows: list[list[str]], statement: Statement, rng: Random) -> None:
    headings = ALL_LAYOUTS[statement.name].headings
    place = next(index for index, heading in enumerate(headings) if "Date" in heading)
    line = rng.choice(statement.lines)
    at = datetime.fromtimestamp(statement.movements[statement.lines.index(line)].at, UTC).astimezone(KAMPALA)
    form = rng.choice(
        ("%d-%b-%Y  %H:%M:%S", "%Y%m%d%H%M%S", "%d %B %Y, %I:%M:%S %p", "%Y/%m/%d\r%H:%M", "%d-%b", "%H:%M")
    )
    rows[line][place] = f"{at:{form}}"


def a_separator_changes(texts: list[str], statement: Statement, rng: Random) -> None:
    """One line has another separator, everywhere or at one place."""
    line, other = rng.choice(statement.lines), rng.choice(",;\t|")
    count = rng.choice((-1, 1))
    texts[line] = texts[line].replace(statement.mark, other, count)


def a_line_is_cut(texts: list[str], statement: Statement, rng: Random) -> None:
    """A line loses its end within a cell that another one follows."""
    line = rng.choice(statement.lines)
    texts[line] = texts[line][: rng.randrange(1, texts[line].rindex(statement.mark) + 1)]


def the_file_is_cut(texts: list[str], statement: Statement, rng: Random) -> None:
    """The file ends within its last line."""
    del texts[statement.lines[-1] + 1 :]
    texts[-1] = texts[-1][: rng.randrange(1, len(texts[-1]))]


def a_quotation_mark_is_added(texts: list[str], statement: Statement, rng: Random) -> None:
    for _ in range(rng.choice((1, 1, 2))):
        line = rng.choice(statement.lines)
        place = rng.choice([0, *(found.end() for found in re.finditer(re.escape(statement.mark), texts[line]))])
        place = rng.choice((place, rng.randrange(len(texts[line]) + 1)))
        texts[line] = f'{texts[line][:place]}"{texts[line][place:]}'


def a_line_breaks(texts: list[str], statement: Statement, rng: Random) -> None:
    line = rng.choice(statement.lines)
    place = rng.randrange(len(texts[line]))
    texts[line] = f"{texts[line][:place]}\n{texts[line][place:]}"


OF_ROWS = (
    a_column_moves, a_cell_is_added, a_cell_is_lost, lines_change_places, the_headings_come_again, a_sign_is_spoiled,
    a_minus_looks_different, digits_get_separators, a_date_is_written_otherwise,
)  # fmt: skip
OF_TEXTS = (a_separator_changes, a_line_is_cut, the_file_is_cut, a_quotation_mark_is_added, a_line_breaks)

SPOILS = OF_ROWS + OF_TEXTS


def spoiled(statement: Statement, spoil: Callable[..., None], rng: Random) -> bytes:
    """The file, spoiled in one way."""
    rows = [list(row) for row in statement.rows]
    if spoil in OF_ROWS:
        spoil(rows, statement, rng)
    texts = [statement.text(row) for row in rows]
    end = "\r\n"
    if spoil in OF_TEXTS:
        spoil(texts, statement, rng)
        end = "" if spoil is the_file_is_cut else end
    return ("\r\n".join(texts) + end).encode()


@pytest.mark.parametrize("name", ALL_LAYOUTS)
def test_a_spoiled_statement_is_read_right_or_refused_by_its_row(name: str, tries: Callable[[int], int]) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(tries(MUTANTS) // len(ALL_LAYOUTS)):
        rng = Random(f"{name} {seed}")
        statement = written(rng, name)
        provider = name.partition("-")[0]
        order = DateOrder.MONTH_FIRST if statement.form.dates == "month-first" else None
        whole = "\r\n".join(map(statement.text, [*statement.rows, []])).encode()
        dates = {each.receipt: each.at for each in statement.movements}
        expected = sums(statement.movements)
        assert read_sums(whole, provider, order)[0] == expected, seed
        spoil = SPOILS[seed % len(SPOILS)]
        content = spoiled(statement, spoil, rng)
        try:
            found, read_dates = read_sums(content, provider, order)
        except SpreadsheetError as refusal:
            # A quotation mark that nothing closes may hide which separator the file has.
            is_named = refusal.line or str(refusal).startswith("No row has the headings")
            outcomes[f"{spoil.__name__}: {'refused' if is_named else 'refused without a row'}"] += 1
            continue
        case = (seed, spoil.__name__, content.decode())
        assert found == expected, case
        assert read_dates.keys() == dates.keys(), case
        for receipt, at in read_dates.items():
            assert abs(at.timestamp() - dates[receipt]) < 60, case
        outcomes[f"{spoil.__name__}: right"] += 1
    # Each way was tried, and what leaves no doubt was read.
    assert len({outcome.partition(":")[0] for outcome in outcomes}) == len(SPOILS)
    assert not [outcome for outcome in outcomes if outcome.endswith("without a row")], outcomes
    for harmless in (a_column_moves, lines_change_places, the_headings_come_again, a_minus_looks_different):
        assert not outcomes[f"{harmless.__name__}: refused"], outcomes
