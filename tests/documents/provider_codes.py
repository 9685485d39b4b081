"""Writes docs/reference/PROVIDER_CODES.md: what each code of a provider means, from the provider's table."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from ussd_server.providers.failures import FAILURES, FailureCode
from ussd_server.providers.http.replies import Reasons, Standing
from ussd_server.providers.messages import Direction
from ussd_server.providers.registry import PACKAGES, title

_REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = _REPOSITORY / "docs" / "reference" / "PROVIDER_CODES.md"
_FOLDER = _REPOSITORY / "ussd_server" / "providers"
TABLES = [package.name for package in PACKAGES if (_FOLDER / package.name / "failure_reasons.csv").exists()]
_HEAD = """# Codes of providers

What each code of a provider means here, and where it is documented. `scripts/document` writes this page from
`failure_reasons.csv` in the folder of each provider; correct a meaning there. The provider's own code stands in the
history of each payment (`provider_code`).

*Final* codes end a payment that the provider reports as failed. Beside one that is not finished, not decided or a
duplicate, a failure is not believed: the payment stays unfinished and is queried again. A code that is not in the
table is `PROVIDER_ERROR` once the provider says that the payment failed; beside a request it proves nothing, and the
payment is queried.

`retry` says what helps: `no`, `new_attempt`, `after_user_action` or `wait`.
"""
_STANDINGS = {
    Standing.SUCCEEDED: "the call succeeded; the status of the payment decides",
    Standing.PENDING: "not finished: queried again",
    Standing.AMBIGUOUS: "not decided: queried again",
    Standing.DUPLICATE: "the provider has this payment already: queried",
    Standing.NOT_FOUND: "the provider does not have it: queried again, later sent again under the same name",
}


def written_page() -> str:
    """Return the page."""
    return _HEAD + "".join(line for name in TABLES for line in _table(name))


def write_provider_codes() -> None:
    """Replace the page."""
    PAGE.write_text(written_page(), encoding="utf-8")


def rows_of(name: str) -> list[dict[str, str]]:
    """The rows of a provider's table."""
    with files(f"ussd_server.providers.{name}").joinpath("failure_reasons.csv").open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _table(name: str) -> Iterator[str]:
    yield f"\n## {title(name)}\n\n| code | of | final | means | whose | retry | documented |\n"
    yield "| --- | --- | --- | --- | --- | --- | --- |\n"
    reasons = Reasons(f"ussd_server.providers.{name}")
    for row in rows_of(name):
        collection = _meaning(reasons, row["reason"], Direction.COLLECTION)
        payout = _meaning(reasons, row["reason"], Direction.DISBURSEMENT)
        both = [("both", collection)] if collection == payout else [("collections", collection), ("payouts", payout)]
        for direction, meaning in both:
            yield f"| `{row['reason']}` | {direction} | {meaning} | {row['source']} |\n"


def _meaning(reasons: Reasons, reason: str, direction: Direction) -> str:
    meaning = reasons.meaning(reason, direction)
    if isinstance(meaning, FailureCode):
        kind = FAILURES[meaning]
        return f"yes | `{meaning}` | {kind.fault} | `{kind.retry}`"
    assert meaning is not None
    return f"no | {_STANDINGS[meaning]} | | "
