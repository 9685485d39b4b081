"""The fields and codes of a provider's replies that this version knows, so that a trial names the others."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class KnownReplies:
    """`fields` are paths such as `data.transaction.status`; `codes` are in capitals."""

    fields: frozenset[str] = frozenset()
    codes: frozenset[str] = frozenset()


def read_known_replies(package: str) -> KnownReplies:
    """The tables `replies.csv` (`part`, `text`) and `failure_reasons.csv` in the folder of a provider."""
    texts: dict[str, set[str]] = {"field": set(), "code": set()}
    with files(package).joinpath("replies.csv").open(encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            texts[row["part"]].add(row["text"])
    with files(package).joinpath("failure_reasons.csv").open(encoding="utf-8") as lines:
        codes = {row["reason"] for row in csv.DictReader(lines)} | texts["code"]
    return KnownReplies(frozenset(texts["field"]), frozenset(code.upper() for code in codes))
