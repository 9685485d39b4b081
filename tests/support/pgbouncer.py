"""A real pgbouncer in front of a PostgreSQL."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from testbed.ports import free_port
from tests.support.eventually import eventually

# Of whole sessions the service needs as many as it has threads.
_LENT = {"session": 20, "transaction": 3}
_SETTINGS = """[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {lent}
max_client_conn = 200
ignore_startup_parameters = options,extra_float_digits
"""


@contextmanager
def pgbouncer(folder: Path, url: str, mode: str) -> Iterator[str]:
    """The address of a database behind a pgbouncer that lends connections for a `session` or a `transaction`."""
    address, port, file = urlsplit(url), free_port(), folder / "pgbouncer.ini"
    settings = _SETTINGS.format(server=address.port, port=port, mode=mode, lent=_LENT[mode])
    # It connects as one user for all of its clients.
    file.write_text(settings.replace("port=", f"user={address.username} port=", 1))
    # It does not run as root.
    program = ["pgbouncer", "-q", str(file)]
    if os.getuid() == 0:
        file.chmod(0o644)
        program = ["pgbouncer", "-q", "-u", "nobody", str(file)]
    process = subprocess.Popen(program, stderr=subprocess.DEVNULL)
    pooled = address._replace(netloc=f"{address.username}@127.0.0.1:{port}").geturl()
    try:
        eventually(lambda: _answers(pooled))
        yield pooled
    finally:
        process.kill()
        process.wait()


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
