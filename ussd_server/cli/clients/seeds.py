"""Lists of clients and keys, in JSON or CSV, brought in row by row; the same list can be brought in again."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from ussd_server import demonstration
from ussd_server.cli import services
from ussd_server.cli.commands import progress, show
from ussd_server.database.schema import migrate
from ussd_server.settings import Settings, read_settings
from ussd_server.status import ServiceError

Row = Mapping[str, Any]
_MOST_COLUMNS = 100
_SAMPLES = Path(demonstration.__file__).parent


@dataclass(frozen=True, slots=True)
class ImportedRow:
    """The result of a row: `outcome` is created, updated, unchanged or refused; `made` is printed."""

    outcome: str
    made: dict[str, str] = field(default_factory=dict)


def read_rows(file: Path, required: Collection[str], optional: Collection[str]) -> list[Row]:
    """The rows of a JSON array of objects, or of a CSV file with a line of column names; empty fields are left out.

    Raises ClickException, before anything is changed, for an unreadable file and for unknown or missing columns.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
        rows = _json_rows(text) if text.lstrip().startswith(("[", "{")) else _csv_rows(text, required)
    except json.JSONDecodeError as error:
        raise click.ClickException(
            f"{file}, line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}."
        ) from None
    except csv.Error as error:
        raise click.ClickException(f"{file} is not CSV: {error}.") from None
    except (OSError, ValueError, RecursionError):
        raise click.ClickException(f"{file} is neither a JSON array of objects nor CSV with column names.") from None
    kept: list[Row] = [{name: value for name, value in row.items() if value not in (None, "")} for row in rows]
    for number, row in enumerate(kept, 1):
        for name in row:
            if name not in required and name not in optional:
                columns = ", ".join([*required, *optional])
                raise click.ClickException(f"Row {number} has the unknown column {name}; there are {columns}.")
        for name in required:
            if name not in row:
                raise click.ClickException(f"Row {number} lacks {name}.")
    return kept


def shipped_sample(name: str, settings: Settings) -> Path:
    """The shipped list that seeds a sandbox where no file is named. Everyone can read its passwords and secrets.

    Raises ClickException in production.
    """
    if not settings.is_sandbox:
        raise click.ClickException("Name a FILE: everyone knows the secrets of the shipped list.")
    return _SAMPLES / name


def seed_rows(
    file: Path | None,
    sample: str,
    required: Collection[str],
    optional: Collection[str],
    import_row: Callable[[Row], ImportedRow],
    printed_column: str,
) -> None:
    """Import the rows of `file`, else those of the shipped `sample`, whose `printed_column` is shown."""
    settings = read_settings()
    rows = read_rows(file or shipped_sample(sample, settings), required, optional)
    services(settings)  # which may be a new one
    migrate()
    import_rows(rows, import_row, printed_column=None if file else printed_column)


def import_rows(rows: list[Row], import_row: Callable[[Row], ImportedRow], printed_column: str | None = None) -> None:
    """Import every row by `import_row`, print each result, and end with exit code 1 when a row was refused.

    `printed_column` is printed beside the results, such as the password of the shipped list.
    """
    results = []
    with progress("rows") as show_rows:
        for row in rows:
            imported = _try(import_row, row)
            if printed_column and imported.outcome != "refused":
                imported.made[printed_column] = str(row[printed_column])
            results.append(imported)
            show_rows(len(results))
    lines = [
        f"Row {number}: {imported.outcome}  " + "  ".join(f"{name}: {value}" for name, value in imported.made.items())
        for number, imported in enumerate(results, 1)
    ]
    show(
        [{"row": number, "outcome": imported.outcome, **imported.made} for number, imported in enumerate(results, 1)],
        "\n".join(lines) or "The list is empty.",
    )
    if any(imported.outcome == "refused" for imported in results):
        raise SystemExit(1)


def text_of(row: Row, name: str, default: str = "") -> str:
    """A field that must be text without control characters and half surrogate pairs. Raises ValueError otherwise."""
    value = row.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f"{name}: Must be a string.")
    if not value.isprintable():
        raise ValueError(f"{name}: Must be printable characters.")
    return value


def _try(import_row: Callable[[Row], ImportedRow], row: Row) -> ImportedRow:
    try:
        return import_row(row)
    except (ServiceError, ValueError) as refusal:
        return ImportedRow("refused", {"reason": str(refusal)})


def _csv_rows(text: str, required: Collection[str]) -> list[dict[str, Any]]:
    reader = csv.DictReader(io.StringIO(text), strict=True)
    names = reader.fieldnames or ()
    # Each row gets a value for every name, however short it is.
    if len(names) > _MOST_COLUMNS or not set(required) <= set(names):
        raise ValueError("the first line does not name the columns")
    return list(reader)


def _json_rows(text: str) -> list[dict[str, Any]]:
    rows = json.loads(text)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("not an array of objects")
    return rows
