"""Where the supervisor listens, and what it refuses to share."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.ports import free_port
from ussd_server.redis.client import REDIS_TROUBLE, connect
from ussd_server.server.supervisor import StartError, _make_private, base_url, embedded_redis, listen
from ussd_server.settings import read_settings


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


def test_the_embedded_redis_answers_before_anything_else_starts_and_ends_with_its_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))
    settings = read_settings()
    with embedded_redis(settings) as started:
        assert len(started) == 1
        assert connect(settings.redis_url).ping()
    with pytest.raises(REDIS_TROUBLE):
        connect(settings.redis_url).ping()
    monkeypatch.setenv("USSD_REDIS_URL", "redis://cache.example")
    with embedded_redis(read_settings()) as started:
        assert started == []
