"""Mutants that live with a reason, and the page that shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mutation.mutants import Mutant

_SAME = "the same result"
REASONS: dict[str, str] = {
    "services/payouts/approval.py, _drafted: 0 -> 1": f"pauses at other rows; {_SAME}.",
    "services/payouts/approval.py, _drafted: place % _ROWS_BEFORE_A_PAUSE == 0 -> "
    "(place % _ROWS_BEFORE_A_PAUSE != 0)": f"pauses more often; {_SAME}.",
    "services/payouts/name_match.py, _distance: 1 -> 2": f"a row of the table is longer; {_SAME}.",
}
"""Why no test has to notice a mutant, by its name."""

_PAGE = """# Mutation

Do the tests notice when the program is wrong? `scripts/mutate` changes the program in one place (another comparison, a
condition, a lock or a statement less), runs the tests of that folder, and lists the changes that no test noticed.

    scripts/mutate --sample {tried} --seed {seed} --page docs/MUTATION.md

wrote this page. The same sample and seed choose the same mutants of the same program.

| part | mutants | tried | died |
|---|---:|---:|---:|
{rows}

{share:.0%} of the mutants that were tried died.

## Survivors

{survivors}
"""


def write_page(page: Path, seed: int, counts: Mapping[str, tuple[int, int, int]], survivors: Sequence[Mutant]) -> None:
    """Write the page of a run. `counts` are, by part: how many mutants there are, were tried, and died."""
    total = tuple(map(sum, zip(*counts.values(), strict=True)))
    rows = [f"| {name} | {' | '.join(map(str, each))} |" for name, each in {**counts, "all": total}.items()]
    listed = [f"- `{mutant.name}`: {REASONS.get(mutant.name, 'no test notices it yet.')}" for mutant in survivors]
    page.write_text(
        _PAGE.format(
            tried=total[1],
            seed=seed,
            rows="\n".join(rows),
            share=total[2] / max(total[1], 1),
            survivors="\n".join(listed) or "None.",
        ),
        encoding="utf-8",
    )
