"""An operator's side of SMPP that other people wrote: the npm package `smpp`, in a process of Node.js."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually

PASSWORD = "operators"
_PROGRAM = Path(__file__).with_name("operator.cjs")


def install(folder: Path) -> Path:
    """Install the package, and return the folder."""
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), "smpp@0.5.1"]
    subprocess.run(command, check=True, timeout=300)
    return folder


class OperatorSide:
    """A server that programs bind to. `events` is what it reported so far."""

    def __init__(self, folder: Path, tls: dict[str, Any] | None = None) -> None:
        options = json.dumps({"password": PASSWORD, "tls": tls})
        self._process = subprocess.Popen(
            ["node", _PROGRAM, options],
            env={"NODE_PATH": str(folder / "node_modules"), "PATH": "/usr/local/bin:/usr/bin:/bin"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.events = list[dict[str, Any]]()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = self.wait("listening")["port"]

    def command(self, what: str, **given: Any) -> None:
        """Give it a command, and wait until it was done."""
        done = self.count("done")
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps({'do': what, **given})}\n")
        self._process.stdin.flush()
        eventually(lambda: self.count("done") > done)

    def reset(self) -> None:
        """End all connections, and forget what was held and reported."""
        self.command("reset")
        self.events.clear()

    def deliver(self, op: int, text: str = "", session: str = "026e", bind: int = 0, **given: Any) -> int:
        """Deliver a step, and return the status of our answer."""
        before = self.count("delivered")
        fields = {"source_addr": "256770000000", "destination_addr": "384123", "ussd_service_op": op} | given
        self.command("deliver", bind=bind, session=session, short_message=text, **fields)
        status: int = self.wait("delivered", before)["status"]
        return status

    def screen(self, op: int, text: str = "", session: str = "026e", bind: int = 0, **given: Any) -> dict[str, Any]:
        """Deliver a step, and return the screen that we submitted for it."""
        before = self.count("submit")
        assert self.deliver(op, text, session, bind, **given) == 0
        return self.wait("submit", before)

    def wait(self, event: str, before: int = 0, fits: Callable[[dict[str, Any]], bool] = lambda _: True) -> Any:
        """Wait for one more event of a kind than `before` that fits, and return it."""
        eventually(lambda: len(self._of(event, fits)) > before)
        return self._of(event, fits)[before]

    def count(self, event: str) -> int:
        """How many events of a kind it reported."""
        return len(self._of(event, lambda _: True))

    def stop(self) -> None:
        """End it at once, as a crash would."""
        self._process.kill()
        self._process.wait(60)
        self._reader.join(60)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _of(self, event: str, fits: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event and fits(each)]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.events.append(json.loads(line))
