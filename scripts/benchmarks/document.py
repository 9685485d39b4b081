"""`document`: the figures of a run of `all`, written into docs/PERFORMANCE.md."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import orjson

from benchmarks.figures import figures_of
from benchmarks.report import markdown_table

_DOCS = Path(__file__).resolve().parents[2] / "docs"
FIGURES, DOCUMENT = _DOCS / "performance.json", _DOCS / "PERFORMANCE.md"
# The rows of a table in the document, by the name that stands at its place.
_ROWS = {
    "calls": ("calls", "targets"),
    "latencies": ("calls", "latencies"),
    "keys": ("growth", "keys"),
    "workers": ("growth", "workers"),
    "ledger": ("ledger", "runs"),
    "pages": ("pages", "pages"),
    "ussd": ("ussd", "runs"),
}
PLACES = {"machine", "figures", "profiles", *_ROWS}
_PLACE = re.compile(r"(<!-- (?P<name>[a-z]+) -->\n).*?(<!-- end -->)", re.DOTALL)


@click.command()
@click.argument("file", type=click.Path(exists=True, path_type=Path), default=FIGURES)
def document(file: Path) -> None:
    """Write the tables of docs/PERFORMANCE.md anew from what `all --json FILE` measured."""
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(), orjson.loads(file.read_bytes())))


def with_tables(text: str, result: Mapping[str, Any]) -> str:
    """The document with every table that the result can fill filled by it."""
    found = {name: result.get(part, {}).get(rows) for name, (part, rows) in _ROWS.items()}
    tables = {name: markdown_table(rows) for name, rows in found.items() if rows}
    tables["figures"] = markdown_table([figure.row() for figure in figures_of(dict(result))])
    tables["machine"] = _machine(result["processors"], result["load_average"])
    if "profile" in result:
        tables["profiles"] = "\n".join(map(_profile, result["profile"]["profiles"]))
    return _PLACE.sub(lambda place: place[1] + tables.get(place["name"], "") + place[3], text)


def _machine(processors: int, load_average: float) -> str:
    sentence = f"Measured with {processors} processors, at a load average of {load_average:.1f} before."
    if load_average > processors / 2:
        sentence += " **Other programs kept them busy: believe the processor times rather than the rates.**"
    return f"{sentence}\n"


def _profile(profile: Mapping[str, Any]) -> str:
    title = f"**{profile['target']}**, {profile['web_us']} us a call in the web processes"
    return f"{title}\n\n{markdown_table(profile['owners'])}\n{markdown_table(profile['functions'])}"
