"""Archives of months: the payments that began in a month (UTC) with all that belongs to them, as CSV with checksums."""

from __future__ import annotations

import csv
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple

from ussd_server.database.tables import MomentField, Table
from ussd_server.database.unit_of_work import dialect, run_query
from ussd_server.models.ledger import Transfer
from ussd_server.models.sending import Event
from ussd_server.models.transactions import StatusChange, Transaction
from ussd_server.parsing.secrets_in_text import without_paths, without_tokens
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id_floor

_PAYMENTS_AT_ONCE = 1000
_SUMS = "SHA256SUMS"
_MOST_SUMS_BYTES = 4096
# A line that is longer is read in parts, which are no rows of an archive.
_MOST_LINE_CHARACTERS = 1024 * 1024
_MOST_COLUMNS = 200
# What outlives the database lets no reader call anything.
_HIDES: Mapping[str, Callable[[str], str]] = {
    "callback_url": without_paths,
    "description": without_tokens,
    "metadata": without_tokens,
    "payload": without_tokens,
}


class _Kept(NamedTuple):
    """A table of an archive: the column with a payment's id, and the one that orders the rows of a payment."""

    table: type[Table]
    key: str
    then: str

    @property
    def name(self) -> str:
        name: str = self.table._meta.table_name
        return name

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.table._meta.fields)

    def rows(self, low: str, high: str) -> Iterator[list[Any]]:
        """The rows of the payments from `low` to `high`, as text without secrets: times as the API writes them."""
        ours = dialect()
        selected = ", ".join(
            ours.moment(name) if isinstance(field, MomentField) else ours.text(name)
            for name, field in self.table._meta.fields.items()
        )
        query = "SELECT {} FROM {} WHERE {} >= :low AND {} <= :high ORDER BY {}, {}"
        query = query.format(selected, self.name, self.key, self.key, self.key, self.then)
        hidden = [(place, _HIDES[name]) for place, name in enumerate(self.columns) if name in _HIDES]
        for row in map(list, run_query(query, low=low, high=high)):
            for place, hide in hidden:
                row[place] = row[place] and hide(row[place])
            yield row


_TABLES = (
    _Kept(Transaction, "id", "id"),
    _Kept(StatusChange, "transaction_id", "sequence"),
    _Kept(Transfer, "transaction_id", "id"),
    _Kept(Event, "object_id", "sequence"),
)


def export_month(month: str, folder: Path, now: datetime, show_rows: Callable[[int], object]) -> Mapping[str, int]:
    """Write a month (`2026-10`) to a new folder of its name in `folder`; return the number of rows by table.

    The folder appears whole or not at all. Values are those of the moment of the export. Raises INVALID_REQUEST for a
    month that is not over or was exported to this folder, and OSError.
    """
    begin, end = _bounds(month)
    if end > now:
        raise ServiceError(Code.INVALID_REQUEST, f"{month} is not over")
    if (folder / month).exists():
        raise ServiceError(Code.INVALID_REQUEST, f"{folder / month} exists; verify it, or export to another folder")
    folder.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{month}-", dir=folder))
    try:
        counts = _write(draft, new_id_floor(begin), new_id_floor(end), show_rows)
        sums = [f"{_sum(draft / _file(each))}  {_file(each)}\n" for each in _TABLES]
        (draft / _SUMS).write_text("".join(sums), encoding="ascii")
        draft.rename(folder / month)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return counts


def verify_month(folder: Path) -> Mapping[str, int]:
    """Read an archive again and return the number of rows by table. INVALID_REQUEST names what is wrong with it."""
    begin, end = map(new_id_floor, _bounds(folder.name))
    for name in (_SUMS, *map(_file, _TABLES)):
        # A device or a pipe has no end.
        if not (folder / name).is_file():
            raise ServiceError(Code.INVALID_REQUEST, f"{folder / name} is missing, or no file")
    try:
        with (folder / _SUMS).open(encoding="ascii") as file:
            sums = file.read(_MOST_SUMS_BYTES)
        counts = {}
        for each in _TABLES:
            if f"{_sum(folder / _file(each))}  {_file(each)}\n" not in sums:
                raise ServiceError(Code.INVALID_REQUEST, f"{_file(each)} is not as it was exported")
            counts[each.name] = sum(1 for _ in _ids(folder / _file(each), each.key, begin, end))
    except (csv.Error, UnicodeDecodeError):
        raise ServiceError(Code.INVALID_REQUEST, f"{folder} cannot be read") from None
    return counts


def _write(draft: Path, begin: str, end: str, show_rows: Callable[[int], object]) -> dict[str, int]:
    counts = dict.fromkeys((each.name for each in _TABLES), 0)
    with ExitStack() as files:
        writers = {}
        for each in _TABLES:
            file: IO[str] = files.enter_context((draft / _file(each)).open("x", encoding="utf-8", newline=""))
            writers[each] = csv.writer(file)
            writers[each].writerow(each.columns)
        while True:
            with dialect().snapshot():
                ids = [row_id for (row_id,) in run_query(_IDS, low=begin, end=end, most=_PAYMENTS_AT_ONCE + 1)]
                page = list(map(str, ids[:_PAYMENTS_AT_ONCE]))
                for each in _TABLES if page else ():
                    rows = list(each.rows(page[0], page[-1]))
                    writers[each].writerows(rows)
                    counts[each.name] += len(rows)
            show_rows(sum(counts.values()))
            if len(ids) <= _PAYMENTS_AT_ONCE:
                return counts
            begin = str(ids[-1])


_IDS = "SELECT id FROM transactions WHERE id >= :low AND id < :end ORDER BY id LIMIT :most"


def _ids(path: Path, key: str, begin: str, end: str) -> Iterator[str]:
    """Yield the payment of each row. INVALID_REQUEST for one of another month, or of another length."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.reader(iter(partial(file.readline, _MOST_LINE_CHARACTERS), ""), strict=True)
        headings = next(rows, [])
        if key not in headings or len(headings) > _MOST_COLUMNS:
            raise ServiceError(Code.INVALID_REQUEST, f"{path.name} has other columns")
        column = headings.index(key)
        for row in rows:
            if len(row) != len(headings):
                raise ServiceError(Code.INVALID_REQUEST, f"{path.name} has a row of another length")
            if not begin <= row[column] < end:
                raise ServiceError(Code.INVALID_REQUEST, f"{path.name} has a row of another month")
            yield row[column]


def _bounds(month: str) -> tuple[datetime, datetime]:
    try:
        begin = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
        years, index = divmod(begin.month, 12)
        end = begin.replace(year=begin.year + years, month=index + 1)
        if f"{begin:%Y-%m}" != month:
            # Another name of the month, such as 2026-1, would be the folder of another archive.
            raise ValueError
    except ValueError:
        raise ServiceError(Code.INVALID_REQUEST, f"{month} is no month; write it as 2026-10") from None
    return begin, end


def _file(kept: _Kept) -> str:
    return f"{kept.name}.csv"


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
