"""A trial of mutants: a copy of the checkout, and which of its tests fail after a change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from mutation import reach
from mutation.mutants import Mutant

# The longest test takes two seconds: one that takes longer than this does not end.
_LONGEST_SECONDS = 60


class Trial:
    """A copy of what git knows, as it is in the checkout: a mutant must not be seen by anything else."""

    def __init__(self, checkout: Path, folder: Path) -> None:
        self._copy = folder / "copy"
        self._reach, self._chosen = folder / "reach", folder / "chosen"
        self._tests: list[dict[str, Any]] = []
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=checkout, capture_output=True, check=True).stdout
        for name in listed.decode().split("\0")[:-1]:
            source, target = checkout / name, self._copy / name
            if source.is_file():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read_bytes())

    def measure(self, tests: Sequence[str], files: set[Path]) -> None:
        """Run the tests without a change: which functions of the files each reaches, and how long it takes.

        Tests that fail without a change notice nothing later.
        """
        self._reach.write_bytes(b"")
        paths = "\n".join(str(self._copy / file) for file in files)
        done = self._run(tests, {reach.REACH_OF: paths, reach.REACH: str(self._reach)})
        if done.returncode not in (0, 1):
            sys.exit(done.stdout.decode() + done.stderr.decode())
        measured = map(json.loads, self._reach.read_text(encoding="utf-8").splitlines())
        # SQLite first, which is fast, and there the fastest tests.
        self._tests = sorted(measured, key=lambda test: ("postgres" in test["test"], test["seconds"]))

    def is_noticed(self, mutant: Mutant, tests: Sequence[str]) -> bool:
        """Whether one of these tests fails, of those that reach the function of the mutant.

        On PostgreSQL a test sees no more than on SQLite, unless a lock is changed, which SQLite lacks.
        """
        path = self._copy / mutant.file
        reaching = [test["test"] for test in self._tests if [str(path), mutant.function] in test["reached"]]
        names = [name for name in reaching if name.startswith(tuple(tests))]
        if mutant.is_of_lock:
            names = [name for name in names if "sqlite" not in name]
        else:
            on_sqlite = {name.replace("sqlite", "postgres") for name in names if "sqlite" in name}
            names = [name for name in names if name not in on_sqlite]
        if not names:
            return False
        self._chosen.write_text("\n".join(names), encoding="utf-8")
        source = path.read_bytes()
        # A mutant of the same size and second would be taken for its original.
        Path(cache_from_source(str(path))).unlink(missing_ok=True)
        path.write_bytes(mutant.applied(source))
        try:
            files = sorted({name.partition("::")[0] for name in names})
            done = self._run(["-x", *files], {reach.CHOSEN: str(self._chosen), "PYTHONDONTWRITEBYTECODE": "1"})
        finally:
            path.write_bytes(source)
        if done.returncode not in (0, 1, 2):
            sys.exit(done.stdout.decode() + done.stderr.decode())
        return done.returncode != 0

    def _run(self, tests: Sequence[str], environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
        options = ["-q", "-p", "mutation.reach", "-p", "no:cacheprovider", f"--timeout={_LONGEST_SECONDS}"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *options, *tests],
            cwd=self._copy,
            capture_output=True,
            check=False,
            env={**os.environ, **environment},
        )
