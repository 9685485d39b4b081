"""Mutants that live with a reason, and the report of a run in docs/RELIABILITY.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mutation.mutants import Mutant

_SAME = "the same result"
REASONS: dict[str, str] = {
    "services/payouts/approval/approval.py, _draft_rows: 0 -> 1": f"pauses at other rows; {_SAME}.",
    "services/payouts/approval/approval.py, _draft_rows: place % _ROWS_BEFORE_A_PAUSE == 0 -> "
    "(place % _ROWS_BEFORE_A_PAUSE != 0)": f"pauses more often; {_SAME}.",
    "services/payouts/drafts/drafts.py, _judge: place % _ROWS_BEFORE_A_PAUSE == 0 -> "
    "(place % _ROWS_BEFORE_A_PAUSE != 0)": f"pauses more often; {_SAME}.",
    "services/processing/processor.py, claim: now < until -> (now <= until)": "pauses a millisecond longer.",
    "services/processing/provider_answers.py, _apply_after_failure: now < late_check_at -> (now <= late_check_at)": (
        "enquires once more after a callback in that very millisecond."
    ),
    "services/accounts/statements.py, _all_lines: release_connection() -> pass": (
        f"the connection was lent for the statement alone; {_SAME}."
    ),
    "services/clients/key_cache.py, look_up: entry is None -> (entry is not None)": (
        f"asks the database for what cannot be a key; {_SAME}."
    ),
    "services/bank/settlement_rows.py, operators_of: "
    "AuditEvent.select(AuditEvent.object_id, AuditEvent.decided_by).where( "
    "AuditEvent.client_id.in_({row.client_id for row in rows}), AuditEvent.action.in_(_DECISIONS), "
    "AuditEvent.object_id.in_([row.id for row in rows]), ) -> "
    "AuditEvent.select(AuditEvent.object_id, AuditEvent.decided_by).where("
    "AuditEvent.client_id.in_({row.client_id for row in rows}), AuditEvent.object_id.in_([row.id for row in rows]))": (
        f"reads a client's whole audit trail instead of an index; {_SAME}."
    ),
    "services/reconciliation/closed_days.py, preview: 2 -> 3": f"more than one person is meant; {_SAME}.",
    "services/reconciliation/reading/running_balance.py, follow: line.at < self._before -> (line.at <= self._before)": (
        f"equal moments are passed over before; {_SAME}."
    ),
    "services/reconciliation/reading/stated_period.py, _day: 0 -> 1 (3)": (
        f"a second after midnight is compared with midnights alone; {_SAME}."
    ),
    "services/movements/corrections.py, fill: 0 -> 1": "an account that was never used is refused by the database.",
    "services/payouts/payouts.py, items: 1 -> 2": f"reads two rows more than a page has; {_SAME}.",
    "services/payouts/approval/approval.py, _refused: lock_row(Payout, payout_id) -> (Payout.get_by_id(payout_id))": (
        "only a change between these two statements would be lost."
    ),
    "services/reconciliation/comparing/our_payments.py, _lies_within: last < period.first -> (last <= period.first)": (
        "no payment begins and ends in the very millisecond of a statement's first line."
    ),
    "services/reconciliation/reading/statement_lines.py, _direction_of_side: side.cents > 0 -> (side.cents >= 0)": (
        f"a side of nothing is passed over before; {_SAME}."
    ),
    "services/payouts/approval/withdrawals.py, withdraw_approvals: end_lease(row) -> pass": (
        "the names of a draft that a worker had are looked up half a minute later."
    ),
    "services/payouts/drafts/rows.py, read_file: 1 -> 2": f"reads one row more of a file that is refused; {_SAME}.",
    "services/payouts/drafts/name_match.py, _distance: 1 -> 2": f"a row of the table is longer; {_SAME}.",
}
"""Why no test has to notice a mutant, by its name."""

_PAGE = Path(__file__).parents[2] / "docs" / "RELIABILITY.md"
_PART = re.compile(r"(<!-- written by scripts/mutate --report -->\n).*?(<!-- end -->)", re.DOTALL)
_REPORT = """
    scripts/mutate {arguments}

| part | mutants | tried | died |
|---|---:|---:|---:|
{rows}

{share:.0%} of the mutants that were tried died. {survivors}

"""


@dataclass(slots=True)
class Part:
    """A part of the program: how many mutants it has, the sample, how many of it were tried, and which lived."""

    name: str
    mutants: int
    sample: Sequence[Mutant]
    tried: int = 0
    lived: list[Mutant] = field(default_factory=list)

    @property
    def died(self) -> int:
        """How many died."""
        return self.tried - len(self.lived)


def write_report(parts: Sequence[Part], sample: int | None, seed: int) -> None:
    """Write the result of a run into the page; parts of which nothing was tried are left out."""
    parts = [part for part in parts if part.tried]
    counts = {part.name: (part.mutants, part.tried, part.died) for part in parts}
    total = tuple(map(sum, zip(*counts.values(), strict=True)))
    rows = [f"| {name} | {' | '.join(map(str, each))} |" for name, each in {**counts, "all": total}.items()]
    lived = [mutant for part in parts for mutant in part.lived]
    unexplained = [f"- `{mutant.name}`" for mutant in lived if mutant.name not in REASONS]
    report = _REPORT.format(
        arguments=" ".join([*counts, *([f"--sample {sample}"] if sample else []), f"--seed {seed} --report"]),
        rows="\n".join(rows),
        share=total[2] / total[1],
        survivors="\n".join(["These live without a reason:\n", *unexplained])
        if unexplained
        else "Each of the others has a reason.",
    )
    page = _PAGE.read_text(encoding="utf-8")
    _PAGE.write_text(_PART.sub(lambda part: part[1] + report + part[2], page), encoding="utf-8")
