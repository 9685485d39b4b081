"""Processes of the service that start at once: children of one that has imported everything already."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping
from multiprocessing.process import BaseProcess
from pathlib import Path
from subprocess import CompletedProcess
from tempfile import TemporaryDirectory

_PATIENCE_SECONDS = 120
_MAIN = Path(__file__).parents[2] / "ussd_server" / "cli" / "__main__.py"

# A new interpreter takes a second to import the service. These children have none of a test's threads either.
FORK_SERVER = multiprocessing.get_context("forkserver")
FORK_SERVER.set_forkserver_preload(["tests.faults.workers", "ussd_server.cli", "ussd_server.bootstrap"])


class Command:
    """`ussd-server` with these arguments in a process of its own, with no environment but the given one."""

    def __init__(self, *arguments: str, env: Mapping[str, str]) -> None:
        """Start it."""
        self._arguments = list(arguments)
        self._folder = TemporaryDirectory(prefix="command-")
        self._printed = [Path(self._folder.name) / name for name in ("stdout", "stderr")]
        for path in self._printed:
            path.touch()
        # daemon: it ends with the tests, should a test fail before its end.
        self._process: BaseProcess = FORK_SERVER.Process(
            target=_run, args=(self._arguments, dict(env), *map(str, self._printed)), daemon=True
        )
        self._process.start()
        self.pid = self._process.pid or 0

    def result(self) -> CompletedProcess[str]:
        """Wait for its end; give its exit code and what it printed."""
        self._process.join(_PATIENCE_SECONDS)
        assert self._process.exitcode is not None, f"it did not end: {self._arguments}"
        with self._folder:
            stdout, stderr = (path.read_text() for path in self._printed)
        return CompletedProcess(self._arguments, self._process.exitcode, stdout, stderr)


def run_command(*arguments: str, env: Mapping[str, str]) -> CompletedProcess[str]:
    """Run `ussd-server` to its end."""
    return Command(*arguments, env=env).result()


def _run(arguments: list[str], environment: dict[str, str], stdout: str, stderr: str) -> None:
    for number, name in ((1, stdout), (2, stderr)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [str(_MAIN), *arguments]
    from ussd_server.cli import main

    main(arguments)
