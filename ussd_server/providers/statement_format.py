"""Reads how providers write statements, from tables that can be corrected without touching code."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from enum import StrEnum
from importlib.resources import files
from pathlib import Path

from ussd_server.spreadsheets.headings import heading_key
from ussd_server.values import KAMPALA


class StatementField(StrEnum):
    """What a column of a statement holds. `CREDIT` and `DEBIT` stand in place of a signed `AMOUNT`, or beside it.

    `SIDE` is the word Credit or Debit, which may stand beside a `TYPE`, or in place of it.

    `BALANCE` is that of the account after the line; `FEE` and `TAX` are what the provider took for the line.
    """

    ID = "id"
    REFERENCE = "reference"
    DATE = "date"
    STATUS = "status"
    SIDE = "side"
    TYPE = "type"
    SENDER = "sender"
    RECEIVER = "receiver"
    AMOUNT = "amount"
    CREDIT = "credit"
    DEBIT = "debit"
    FEE = "fee"
    TAX = "tax"
    BALANCE = "balance"
    CURRENCY = "currency"


class DateOrder(StrEnum):
    """Whether the day or the month comes first in dates such as 03/04/2026."""

    DAY_FIRST = "dmy"
    MONTH_FIRST = "mdy"


class Thousands(StrEnum):
    """The separator of thousands in amounts. If it is the comma, a dot is the decimal point."""

    COMMA = ","
    DOT = "."


class LineStatus(StrEnum):
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    PENDING = "pending"


class LineType(StrEnum):
    """The kind of a statement line: money to us, money from us, a payment given back, or the provider's own charge."""

    IN = "in"
    OUT = "out"
    REVERSAL = "reversal"
    FEE = "fee"


@dataclass(frozen=True, slots=True)
class StatementFormat:
    """The tables of one provider. `headings` are in order of preference; keys of the others are `heading_key` texts.

    `zone` is that of dates which name none.
    """

    headings: Mapping[StatementField, tuple[str, ...]]
    statuses: Mapping[str, LineStatus]
    types: Mapping[str, LineType]
    zone: tzinfo = KAMPALA


_Rows = Iterable[Mapping[str, str | None]]
_MEANINGS: dict[str, type[StrEnum]] = {"heading": StatementField, "status": LineStatus, "type": LineType}
_ZONE = "zone"
_OFFSET = re.compile(r"[+-](0[0-9]|1[0-4]):[0-5][0-9]", re.ASCII)
_COLUMNS = ("provider", "part", "text", "meaning")


def read_statement_format(package: str) -> StatementFormat:
    """The table `statement.csv` in the folder of a provider, with the columns `part`, `text` and `meaning`.

    `part` is `heading`, `status` or `type`; `meaning` is one of `StatementField`, `LineStatus` or `LineType`. The
    `meaning` of the part `zone` is the offset of dates that name none, such as `+03:00`. Raises ValueError for any
    other, a mistake in the table. `package` is the folder as a dotted name.
    """
    with files(package).joinpath("statement.csv").open(encoding="utf-8") as lines:
        try:
            return _format_of(csv.DictReader(lines))
        except (ValueError, KeyError) as error:
            raise ValueError(f"statement.csv {error}") from error


def with_additions(base: StatementFormat, provider: str, additions: Path | None) -> StatementFormat:
    """A format with the rows for this provider in an operator's file, which come after those of the provider.

    The file has the columns `provider`, `part`, `text` and `meaning`. Raises ValueError for a file that cannot be used.
    """
    if additions is None:
        return base
    added = _format_of((row for row in _read_additions(additions) if row["provider"] == provider), base.zone)
    headings = {field: base.headings.get(field, ()) + added.headings.get(field, ()) for field in StatementField}
    return StatementFormat(
        {field: names for field, names in headings.items() if names},
        {**base.statuses, **added.statuses},
        {**base.types, **added.types},
        added.zone,
    )


def problem_of_additions(additions: Path, providers: Collection[str]) -> str | None:
    """The error in an operator's file; None if it can be used."""
    try:
        for row in _read_additions(additions):
            if row["provider"] not in providers:
                return f"names the provider {row['provider']}, which is none of {', '.join(providers)}"
            _format_of([row])
    except (ValueError, csv.Error) as error:
        return str(error)
    except OSError:
        return "must be a file that this user can read"
    return None


def _read_additions(path: Path) -> list[dict[str, str | None]]:
    with path.open(encoding="utf-8-sig", newline="") as lines:
        rows = csv.DictReader(lines)
        if sorted(rows.fieldnames or ()) != sorted(_COLUMNS):
            raise ValueError(f"must have the columns {', '.join(_COLUMNS)}")
        return list(rows)


def _format_of(rows: _Rows, zone: tzinfo = KAMPALA) -> StatementFormat:
    headings: dict[StatementField, tuple[str, ...]] = {}
    statuses: dict[str, LineStatus] = {}
    types: dict[str, LineType] = {}
    for row in rows:
        if row["part"] == _ZONE:
            zone = _zone_of(row["meaning"] or "")
            continue
        text, meaning = row["text"] or "", _meaning(row["part"] or "", row["meaning"] or "")
        if isinstance(meaning, StatementField):
            headings[meaning] = (*headings.get(meaning, ()), text)
        elif isinstance(meaning, LineStatus):
            statuses[heading_key(text)] = meaning
        elif isinstance(meaning, LineType):
            types[heading_key(text)] = meaning
    return StatementFormat(headings, statuses, types, zone)


def _zone_of(meaning: str) -> tzinfo:
    if not _OFFSET.fullmatch(meaning):
        raise ValueError(f"gives a {_ZONE} the meaning {meaning!r}, which is no offset such as +03:00")
    return datetime.strptime(meaning, "%z").tzinfo or KAMPALA


def _meaning(part: str, meaning: str) -> StrEnum:
    if part not in _MEANINGS:
        raise ValueError(f"has the part {part!r}, which is none of {', '.join((*_MEANINGS, _ZONE))}")
    meanings = _MEANINGS[part]
    if meaning not in set(meanings):
        raise ValueError(f"gives a {part} the meaning {meaning!r}, which is none of {', '.join(meanings)}")
    return meanings(meaning)
