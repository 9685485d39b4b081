"""Where the supervisor listens, what it refuses to share, and the signals that end its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.ports import free_port
from ussd_server.redis.client import REDIS_ERRORS, connect
from ussd_server.server.embedded_redis import StartError, _make_private, embedded_redis, find_redis
from ussd_server.server.supervisor import base_url, listen
from ussd_server.settings import read_settings

_PROGRAM = """
import os, signal, threading
from ussd_server.server.processes import Child, Family

# A library's thread, which takes the signals that the main thread does not wait for.
threading.Thread(target=threading.Event().wait, daemon=True).start()
child = Child("child", ["sleep", "60"], grace_seconds=60)


def is_ready():
    os.kill(os.getpid(), signal.{signal})
    return True


Family([child]).run(is_ready, lambda: print("ready", flush=True))
print("stopped")
"""


@pytest.mark.parametrize(
    ("bind", "url"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("0.0.0.0:80", "http://127.0.0.1:80"),
        ("[::]:8000", "http://[::1]:8000"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("localhost:8000", "http://localhost:8000"),
    ],
)
def test_the_address_for_programs_on_this_machine_follows_the_setting(bind: str, url: str) -> None:
    assert base_url(bind) == url


def test_a_port_is_listened_on_once() -> None:
    port = free_port()
    with listen(f"127.0.0.1:{port}"), pytest.raises(StartError, match="is in use"):
        listen(f"127.0.0.1:{port}")


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(StartError, match=r"There is no address 192\.0\.2\.1 on this machine"):
        listen("192.0.2.1:8000")


def test_a_folder_that_others_may_enter_is_not_used_for_the_socket(tmp_path: Path) -> None:
    _make_private(tmp_path / "new")
    _make_private(tmp_path / "new")
    (tmp_path / "new").chmod(0o755)
    with pytest.raises(StartError, match="belongs to another user"):
        _make_private(tmp_path / "new")
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(StartError):
        _make_private(tmp_path / "link")


def a_program(folder: Path, name: str, says: str) -> str:
    """A program that prints `says`, and nothing else."""
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return str(path)


def test_the_server_of_the_distribution_is_used_unless_it_is_too_old_or_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_redis().version == "valkey-wheel"
    a_program(tmp_path, "redis-server", "Redis server v=6.0.16 sha=00000000:0")
    assert find_redis().version == "valkey-wheel"
    a_program(tmp_path, "redis-server", "nothing of the kind")
    assert find_redis().version == "valkey-wheel"
    redis = a_program(tmp_path, "redis-server", "Redis server v=7.0.15 sha=00000000:0")
    assert find_redis() == (redis, "redis-7.0")
    valkey = a_program(tmp_path, "valkey-server", "Valkey server v=8.1.3 sha=00000000:0")
    assert find_redis() == (valkey, "valkey-8.1")


@pytest.mark.parametrize("path", [os.environ["PATH"], ""], ids=["installed", "wheel"])
def test_the_embedded_redis_answers_before_anything_else_starts_and_ends_with_its_block(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))
    settings = read_settings()
    with embedded_redis(settings) as started:
        assert len(started) == 1
        assert connect(settings.redis_url).ping()
    with pytest.raises(REDIS_ERRORS):
        connect(settings.redis_url).ping()
    monkeypatch.setenv("USSD_REDIS_URL", "redis://cache.example")
    with embedded_redis(read_settings()) as started:
        assert started == []


def test_a_signal_that_another_thread_takes_stops_all_processes_in_order() -> None:
    for name in ("SIGTERM", "SIGINT", "SIGHUP"):
        program = [sys.executable, "-c", _PROGRAM.replace("{signal}", name)]
        ended = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
        assert (ended.stdout, ended.returncode) == ("ready\nstopped\n", 0), (name, ended.stderr)
