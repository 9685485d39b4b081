"""The real service for journeys: `ussd-server run` with all its processes, in a folder of its own."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from testbed.ports import free_port

_PATIENCE_SECONDS = 60.0
_REPOSITORY = Path(__file__).parents[3]


class Service:
    """One run of the service; `demonstration` is what it wrote for a newcomer."""

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        program: Sequence[str] | None = None,
        *,
        with_examples: bool = False,
        **settings: str,
    ) -> None:
        """`program` is the `ussd-server` command to run; the checkout's, unless another is given."""
        self.folder, self.settings = folder, settings
        self.port = port or free_port()
        arguments = () if with_examples else ("--without-examples",)
        self._process = start(folder, self.port, program, arguments, **settings)
        self.welcome = ""
        while "Ctrl-C" not in self.welcome:
            line = self._process.stdout.readline()
            assert line, f"the service ended with status {self._process.wait()}"
            self.welcome += line
        self.demonstration: dict[str, str] = json.loads((folder / "demo.json").read_text())
        self.pid = self._process.pid

    @property
    def key(self) -> dict[str, str]:
        """The headers of the demonstration's API key."""
        return {"x-api-key": self.demonstration["apikey"], "x-api-secret": self.demonstration["apisecret"]}

    def call(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Send a call on a connection of its own; give the status and the JSON of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=_PATIENCE_SECONDS)
        try:
            connection.request(
                method,
                path,
                None if body is None else json.dumps(body),
                {"Content-Type": "application/json", **(headers or {})},
            )
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send it a signal and wait for its end; give its status."""
        self._process.send_signal(number)
        status = self._process.wait(_PATIENCE_SECONDS)
        self._process.stdout.close()
        return status


def start(
    folder: Path,
    port: int,
    program: Sequence[str] | None = None,
    arguments: Sequence[str] = ("--without-examples",),
    **settings: str,
) -> subprocess.Popen[str]:
    """Start `ussd-server run` with `arguments`, without waiting for anything."""
    return subprocess.Popen(
        [*(program or (sys.executable, "-m", "ussd_server.cli")), "run", *arguments],
        cwd=folder.parent if program else _REPOSITORY,
        env=environment(folder, USSD_BIND=f"127.0.0.1:{port}", **settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE if settings.get("USSD_LOG_LEVEL") else None,
        text=True,
    )


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """The environment of a process of ours: this one's, with no setting but those given."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("USSD_")}
    return {**inherited, "USSD_DATA_DIR": str(folder), **settings}


def descendants(pid: int) -> dict[int, str]:
    """Every process below `pid`, by its number, with its command line."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return {child: command_line(child) for child in found - {pid}}


def command_line(pid: int) -> str:
    """The command line of a process; nothing when it has ended."""
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def answers(port: int, path: str) -> bool:
    """Whether a server answers there with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except OSError:
        return False
    finally:
        connection.close()
