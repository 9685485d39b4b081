"""Mutation: change the program in one place, run the tests of that place, and list the changes that no test notices."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from mutation.mutants import Mutant, mutants_of
from mutation.survivors import REASONS, write_report

ROOT = Path(__file__).parents[2]
_SERVICES = "ussd_server/services"
# What notices the mutants that the tests of their folder do not: the locks, which only PostgreSQL has, and the API.
_THEN = ["tests/services/test_locks.py", "tests/blueprints/money", "tests/database/test_ledger_entries.py"]
# By what is mutated: the tests that have to notice it.
TARGETS = {
    "accounts": (
        [f"{_SERVICES}/accounts"],
        ["tests/services/accounts", "tests/services/transactions/test_explanation.py"],
    ),
    "transactions": ([f"{_SERVICES}/transactions"], ["tests/services/transactions"]),
    "processing": (
        [f"{_SERVICES}/processing"],
        [
            "tests/services/processing",
            "tests/services/reconciliation/test_statements.py",
            "tests/services/transactions/test_explanation.py",
        ],
    ),
    "bank": ([f"{_SERVICES}/bank"], ["tests/services/bank"]),
    "incoming": (
        [f"{_SERVICES}/incoming", f"{_SERVICES}/gates/receipts.py"],
        ["tests/services/incoming", "tests/gates/test_same_money.py", "tests/gates/test_written_receipts.py"],
    ),
    "recovery": ([f"{_SERVICES}/reconciliation/recovery.py"], ["tests/services/reconciliation/test_recovery.py"]),
    "payouts": ([f"{_SERVICES}/payouts"], ["tests/services/payouts", "tests/services/mail/test_notices.py"]),
    "reconciliation": (
        [f"{_SERVICES}/reconciliation", f"{_SERVICES}/reconciliation/days"],
        ["tests/services/reconciliation"],
    ),
    "limits": (["ussd_server/limits"], ["tests/limits"]),
    "key_cache": (
        [f"{_SERVICES}/clients/key_cache.py", f"{_SERVICES}/clients/key_reader.py"],
        ["tests/services/clients", "tests/redis"],
    ),
}
# Messages declare, and the explanation of a payment is words.
_NO_RULES = ("__init__.py", "messages.py", "explanation.py")
_LONGEST_SECONDS = 600


def main() -> None:
    """Try a sample of mutants; show each, and at the end, or at Ctrl-C, how many died."""
    arguments = _parser().parse_args()
    found = {name: list(_all_of(name)) for name in arguments.targets}
    sample = [(name, mutant) for name, mutants in found.items() for mutant in mutants]
    # A smaller sample of the same seed is the beginning of a larger one.
    random.Random(arguments.seed).shuffle(sample)
    sample = sample[: arguments.sample]
    died: Counter[str] = Counter()
    lived: dict[str, list[Mutant]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="mutants") as folder, suppress(KeyboardInterrupt):
        copy = Path(folder)
        _copy_checkout(copy)
        for place, (name, mutant) in enumerate(sample, 1):
            began = time.monotonic()
            if is_noticed := _is_noticed(copy, mutant, TARGETS[name][1]):
                died[name] += 1
            else:
                lived[name].append(mutant)
            took = timedelta(seconds=round(time.monotonic() - began))
            print(f"{place}/{len(sample)} {took} {'died ' if is_noticed else 'LIVED'} {mutant.name}", flush=True)
    unexplained = [mutant for mutants in lived.values() for mutant in mutants if mutant.name not in REASONS]
    tried = died.total() + sum(map(len, lived.values()))
    print(f"{died.total()} of {tried} mutants died; {len(unexplained)} of the others have no reason")
    if arguments.report and tried:
        counts = {name: (len(found[name]), died[name] + len(lived[name]), died[name]) for name in found}
        write_report(arguments.seed, counts, [each for group in lived.values() for each in group])
    sys.exit(1 if unexplained else 0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("targets", nargs="*", default=list(TARGETS), help=f"any of {', '.join(TARGETS)}; default: all")
    parser.add_argument("--sample", type=int, metavar="N", help="try N mutants; default: all, which takes a day")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which sample; default: 1")
    parser.add_argument("--report", action="store_true", help="write the result into docs/RELIABILITY.md")
    return parser


def _all_of(target: str) -> list[Mutant]:
    files = [file for path in TARGETS[target][0] for file in _files(ROOT / path)]
    return [mutant for file in files for mutant in mutants_of(ROOT, file.relative_to(ROOT))]


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in sorted(path.glob("*.py")) if file.name not in _NO_RULES]


def _copy_checkout(copy: Path) -> None:
    """Copy what git knows, as it is in the checkout: a mutant must not be seen by anything else."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    for name in listed.decode().split("\0")[:-1]:
        source, target = ROOT / name, copy / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())


def _is_noticed(copy: Path, mutant: Mutant, tests: list[str]) -> bool:
    """Whether a test fails: first of the folder, on SQLite, which is fast."""
    path = copy / mutant.file
    source = path.read_bytes()
    path.write_bytes(mutant.applied(source))
    try:
        return _fails(copy, [*tests, "-k", "not postgres"]) or _fails(copy, _THEN)
    finally:
        path.write_bytes(source)


def _fails(copy: Path, tests: list[str]) -> bool:
    # Without bytecode: a mutant of the same size and second would be taken for the original.
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(command, cwd=copy, capture_output=True, timeout=_LONGEST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return True
    if done.returncode not in (0, 1, 2):
        sys.exit(done.stdout.decode() + done.stderr.decode())
    return done.returncode != 0


main()
