"""Mutation: change the program in one place, run the tests that reach it, and list the changes that no test notices."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from zlib import crc32

from mutation.mutants import Mutant, mutants_of
from mutation.survivors import REASONS, Part, write_report
from mutation.trial import Trial

ROOT = Path(__file__).parents[2]
_SERVICES = "ussd_server/services"
# What notices mutants of every folder: the locks, which only PostgreSQL has, signatures of rows, and the API.
_THEN = [
    "tests/services/test_locks.py",
    "tests/services/test_rights.py",
    "tests/services/operations/test_prompt_edits.py",
    "tests/blueprints/money",
    "tests/database/test_ledger_entries.py",
]
# By what is mutated: the tests that have to notice it.
TARGETS = {
    "accounts": (
        [f"{_SERVICES}/accounts"],
        [
            "tests/services/accounts",
            "tests/services/transactions/test_explanation.py",
            "tests/gates/test_corrections.py",
        ],
    ),
    "transactions": ([f"{_SERVICES}/transactions"], ["tests/services/transactions", "tests/services/processing"]),
    "processing": (
        [f"{_SERVICES}/processing"],
        [
            "tests/services/processing",
            "tests/services/providers",
            "tests/services/reconciliation/test_statements.py",
            "tests/services/transactions/test_explanation.py",
            "tests/gates/test_contests.py",
            "tests/gates/test_same_money.py",
        ],
    ),
    "bank": (
        [f"{_SERVICES}/bank"],
        ["tests/services/bank", "tests/gates/test_proposals.py", "tests/services/mail/test_notices.py"],
    ),
    "incoming": (
        [f"{_SERVICES}/{each}" for each in ("gates", "incoming", "movements")],
        [
            "tests/gates",
            "tests/services/incoming",
            "tests/services/payouts",
            "tests/services/bank/test_settlement_locks.py",
        ],
    ),
    "payouts": (
        [f"{_SERVICES}/payouts"],
        ["tests/services/payouts", "tests/services/mail/test_notices.py", "tests/gates/test_sending.py"],
    ),
    "reconciliation": (
        [f"{_SERVICES}/reconciliation"],
        ["tests/services/reconciliation", "tests/gates/test_closed_days.py"],
    ),
    "limits": (["ussd_server/limits"], ["tests/limits"]),
    "key_cache": (
        [f"{_SERVICES}/clients/key_cache.py", f"{_SERVICES}/clients/keys/reader.py"],
        ["tests/services/clients", "tests/redis"],
    ),
}
# Messages declare, and the explanation of a payment is words.
_NO_RULES = ("__init__.py", "messages.py", "explanation.py")


def main() -> None:
    """Try a sample of mutants; show each, and at the end, or at Ctrl-C, how many died."""
    arguments = _parser().parse_args()
    kept = arguments.died
    dead = set(kept.read_text("utf-8").splitlines() if kept and kept.exists() else ())
    parts = [_part(name, arguments) for name in arguments.targets]
    with tempfile.TemporaryDirectory(prefix="mutants") as folder, suppress(KeyboardInterrupt):
        trial = Trial(ROOT, Path(folder))
        if left := [part for part in parts if not dead.issuperset(mutant.name for mutant in part.sample)]:
            tests = {test for part in left for test in (*TARGETS[part.name][1], *_THEN)}
            trial.measure(sorted(tests), {mutant.file for part in left for mutant in part.sample})
        for part in parts:
            _try(part, trial, dead, kept)
    unexplained = [mutant for part in parts for mutant in part.lived if mutant.name not in REASONS]
    died, tried = (sum(getattr(part, each) for part in parts) for each in ("died", "tried"))
    print(f"{died} of {tried} mutants died; {len(unexplained)} of the others have no reason")
    if arguments.report and tried:
        write_report(parts, arguments.sample, arguments.seed)
    sys.exit(1 if unexplained else 0)


def _part(name: str, arguments: argparse.Namespace) -> Part:
    mutants = list(_all_of(name))
    # A smaller sample is the beginning of a larger one, and what a program loses leaves the others as they are.
    ordered = sorted(mutants, key=lambda mutant: crc32(f"{arguments.seed} {mutant.name}".encode()))
    return Part(name, len(mutants), ordered[: arguments.sample])


def _try(part: Part, trial: Trial, dead: set[str], kept: Path | None) -> None:
    """Try a part's mutants, those that died before excepted; add the names of those that die now to the file."""
    for mutant in part.sample:
        began = time.monotonic()
        if mutant.name not in dead:
            if not trial.is_noticed(mutant, [*TARGETS[part.name][1], *_THEN]):
                part.lived.append(mutant)
            elif kept:
                with kept.open("a", encoding="utf-8") as names:
                    names.write(f"{mutant.name}\n")
        part.tried += 1
        took = timedelta(seconds=round(time.monotonic() - began))
        verdict = "LIVED" if mutant in part.lived else "died "
        print(f"{part.name} {part.tried} {took} {verdict} {mutant.name}", flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("targets", nargs="*", default=list(TARGETS), help=f"any of {', '.join(TARGETS)}; default: all")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="try N mutants of each; default: all, which takes a day"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which sample; default: 1")
    parser.add_argument(
        "--died", type=Path, metavar="FILE", help="go on from the mutants that died before, whose names FILE keeps"
    )
    parser.add_argument("--report", action="store_true", help="write the result into docs/RELIABILITY.md")
    return parser


def _all_of(target: str) -> list[Mutant]:
    files = [file for path in TARGETS[target][0] for file in _files(ROOT / path)]
    return [mutant for file in files for mutant in mutants_of(ROOT, file.relative_to(ROOT))]


def _files(path: Path) -> list[Path]:
    return [path] if path.suffix else [file for file in sorted(path.rglob("*.py")) if file.name not in _NO_RULES]


main()
