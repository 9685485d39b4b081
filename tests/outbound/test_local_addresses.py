"""Which addresses of clients the service calls, by its settings."""

from __future__ import annotations

from pathlib import Path

import pytest

from ussd_server.bootstrap import build_services
from ussd_server.outbound.addresses import AddressRefusedError
from ussd_server.security.key_ring import Keyring
from ussd_server.settings import read_settings

OWN, PRIVATE = "http://127.0.0.1:9000/", "http://10.0.0.5/"


@pytest.mark.parametrize(
    ("setting", "allowed"), [(None, [OWN]), ("0", []), ("1", [OWN, PRIVATE])], ids=["unset", "refused", "allowed"]
)
def test_the_sandbox_calls_its_own_machine_unless_it_is_forbidden(
    setting: str | None, allowed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))
    monkeypatch.delenv("USSD_ALLOW_PRIVATE_ADDRESSES", raising=False)
    if setting is not None:
        monkeypatch.setenv("USSD_ALLOW_PRIVATE_ADDRESSES", setting)
    assert called() == allowed


def test_production_calls_public_addresses_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Keyring.create(tmp_path / "secrets.json")
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("USSD_ENV", "production")
    monkeypatch.setenv("USSD_SECRETS_FILE", str(tmp_path / "secrets.json"))
    monkeypatch.delenv("USSD_ALLOW_PRIVATE_ADDRESSES", raising=False)
    assert called() == []


def called() -> list[str]:
    """Those of both addresses that a service with the present settings calls."""
    services = build_services(read_settings())
    try:
        guard = services.webhooks._guard
        return [url for url in (OWN, PRIVATE) if not refuses(guard.check_url, url)]
    finally:
        services.close()


def refuses(check: object, url: str) -> bool:
    try:
        check(url)  # type: ignore[operator]
    except AddressRefusedError:
        return True
    return False
