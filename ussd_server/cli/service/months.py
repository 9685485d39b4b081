"""`months`: archives of the payments of a month."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from ussd_server.cli import services
from ussd_server.cli.commands import group, show
from ussd_server.cli.progress import progress
from ussd_server.services.operations.months import export_month, verify_month


@group()
def months() -> None:
    """Export the payments of a month, and verify such an archive.

    \b
    ussd-server months export 2026-10 archive
    ussd-server months verify archive/2026-10
    """


@months.command(example="2026-10 archive")
@click.argument("month")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
def export(month: str, folder: Path) -> None:
    """Write the payments of MONTH (UTC) to a folder of its name in FOLDER: four CSV files and SHA256SUMS.

    The files have transactions, status histories, transfers and events, as they are now. They are for programs: a
    spreadsheet may take a description for a formula.
    """
    with progress("rows") as show_rows:
        rows = export_month(month, folder, services().clock.now(), show_rows)
    place = folder / month
    show({"folder": str(place), "rows": rows}, f"Wrote {place}: {_counts(rows)}.")


@months.command(example="archive/2026-10")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
def verify(folder: Path) -> None:
    """Verify the archive of a month in FOLDER: each file's checksum, and that its rows are of the month.

    Needs no database. `sha256sum -c SHA256SUMS` compares the checksums too.
    """
    rows = verify_month(folder.resolve())
    show({"folder": str(folder), "rows": rows}, f"{folder} is as it was exported: {_counts(rows)}.")


def _counts(rows: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in rows.items())
