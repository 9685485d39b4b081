"""Mutation: the script changes what a test should notice, and nothing else."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
MODULE = '''
"""A module."""
LIMIT = 3

class Account:
    def __init__(self, name):
        self.name = name

    def pay(self, amount: int | None = None):
        """What is left."""
        log.info("paid", 1)
        if amount < 2 and not self.closed:
            row = lock_row(Account, self.id)
            row.balance = self.balance - amount
            self.save()
        return rows.where(Row.a, Row.b)
'''
CHANGES = {
    "2 -> 3",
    "amount < 2 and not self.closed -> (amount < 2 or not self.closed)",
    "amount < 2 -> (amount <= 2)",
    "not self.closed -> (self.closed)",
    "lock_row(Account, self.id) -> (Account.get_by_id(self.id))",
    "row.balance = self.balance - amount -> pass",
    "self.balance - amount -> (self.balance + amount)",
    "self.save() -> pass",
    "rows.where(Row.a, Row.b) -> rows.where(Row.a)",
    "rows.where(Row.a, Row.b) -> rows.where(Row.b)",
}
PROGRAM = """
import sys
from pathlib import Path
from mutation.mutants import mutants_of

root, file = Path(sys.argv[1]), Path("ussd_server/module.py")
for mutant in mutants_of(root, file):
    print(mutant.name)
    (root / f"{mutant.start} {mutant.end}.py").write_bytes(mutant.applied((root / file).read_bytes()))
"""


def test_a_mutant_is_one_comparison_condition_lock_or_statement_of_a_function(tmp_path: Path) -> None:
    (tmp_path / "ussd_server").mkdir()
    (tmp_path / "ussd_server/module.py").write_text(MODULE)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=REPOSITORY / "scripts",
        capture_output=True,
        text=True,
        check=True,
    )
    named = [line.removeprefix("module.py, pay: ") for line in done.stdout.splitlines()]
    assert sorted(named) == sorted(CHANGES)
    for mutant in tmp_path.glob("*.py"):
        assert ast.dump(ast.parse(mutant.read_text())) != ast.dump(ast.parse(MODULE))
