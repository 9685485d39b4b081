"""The settings of providers: all of a provider's or none, and everything wrong is named at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.stand_ins import airtel_settings, mtn_settings
from ussd_server.clock import Clock
from ussd_server.providers.registry import build_providers
from ussd_server.settings import Settings, SettingsError, read_settings

MTN, AIRTEL = mtn_settings("https://proxy.momoapi.mtn.com"), airtel_settings("https://openapi.airtel.ug")


def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **settings: str) -> Settings:
    for name in [name for name in os.environ if name.startswith("USSD_")]:
        monkeypatch.delenv(name)
    for name, value in {"USSD_DATA_DIR": str(tmp_path), **settings}.items():
        monkeypatch.setenv(name, value)
    return read_settings()


def built(settings: Settings) -> list[str]:
    """The names of the providers that these settings switch on."""
    providers = build_providers(settings.providers, Clock().now, ca_file=None, is_sandbox=settings.is_sandbox)
    return [provider.name for provider in providers]


def wrong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **settings: str) -> set[str]:
    """The names of the settings that are refused."""
    with pytest.raises(SettingsError) as refusal:
        read(monkeypatch, tmp_path, **settings)
    return {line.partition(":")[0] for line in str(refusal.value).splitlines()}


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({}, ["sandbox"]),
        (MTN, ["mtn", "sandbox"]),
        (AIRTEL, ["airtel", "sandbox"]),
        (MTN | AIRTEL, ["airtel", "mtn", "sandbox"]),
    ],
)
def test_a_provider_is_enabled_by_its_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, str], names: list[str]
) -> None:
    settings = read(monkeypatch, tmp_path, **given)
    assert built(settings) == names


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ({"USSD_MTN_ENVIRONMENT": "mtnuganda"}, {"USSD_MTN_BASE_URL", "USSD_MTN_COLLECTION_SUBSCRIPTION_KEY"}),
        (
            {"USSD_MTN_BASE_URL": "https://x", "USSD_MTN_DISBURSEMENT_API_KEY": "k"},
            {"USSD_MTN_DISBURSEMENT_SUBSCRIPTION_KEY", "USSD_MTN_DISBURSEMENT_API_USER"},
        ),
        ({"USSD_AIRTEL_PIN": "1"}, {"USSD_AIRTEL_BASE_URL", "USSD_AIRTEL_CLIENT_ID", "USSD_AIRTEL_CLIENT_SECRET"}),
        (AIRTEL | {"USSD_AIRTEL_ENCRYPTED_PIN": "x"}, {"USSD_AIRTEL_ENCRYPTED_PIN"}),
        (AIRTEL | {"USSD_AIRTEL_VERSION": "v3"}, {"USSD_AIRTEL_VERSION"}),
        (AIRTEL | {"USSD_AIRTEL_DISBURSEMENT_ENQUIRY_PATH": "/x"}, {"USSD_AIRTEL_DISBURSEMENT_ENQUIRY_PATH"}),
        (MTN | {"USSD_MTN_ENQUIRY_SECONDS": "5,x"}, {"USSD_MTN_ENQUIRY_SECONDS"}),
        (MTN | {"USSD_MTN_ENQUIRY_SECONDS": "0"}, {"USSD_MTN_ENQUIRY_SECONDS"}),
        *(
            (MTN | {"USSD_MTN_BASE_URL": address}, {"USSD_MTN_BASE_URL"})
            for address in (
                "mtn.com",
                "ftp://mtn.com",
                "https://",
                "https://u:p@mtn.com",
                "https://mtn.com/?a=1",
                "https://mtn.com:0",
                "http://[",
            )
        ),
        ({"USSD_PUBLIC_URL": "api.example.com"}, {"USSD_PUBLIC_URL"}),
        ({"USSD_PROVIDER_TIMEOUT_SECONDS": "26"}, {"USSD_PROVIDER_TIMEOUT_SECONDS"}),
    ],
)
def test_incomplete_settings_of_a_provider_are_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: dict[str, str], names: set[str]
) -> None:
    assert wrong(monkeypatch, tmp_path, **given) == names


OLD_MTN = {
    name.replace("USSD_MTN_", "USSD_MTN_OLD_"): value for name, value in mtn_settings("https://old.mtn.com").items()
}
BOTH = MTN | OLD_MTN | {"USSD_PROVIDERS": "mtn, mtn-old", "USSD_MTN_OLD_KIND": "mtn", "USSD_MTN_OLD_ACCOUNT": "mtn"}


def test_a_provider_may_have_several_connections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = read(monkeypatch, tmp_path, **BOTH, USSD_MTN_OLD_DRAINING="1")
    seen = [(name, access.kind, access.base_url, access.draining) for name, access in settings.providers.items()]
    assert seen == [
        ("mtn", "mtn", MTN["USSD_MTN_BASE_URL"], False),
        ("mtn-old", "mtn", "https://old.mtn.com", True),
    ]
    assert not settings.offers_sandbox, "it is not in the list"
    assert built(settings)[:2] == ["mtn", "mtn"]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"USSD_PROVIDERS": "mtn,mtn"}, {"USSD_PROVIDERS"}),
        ({"USSD_PROVIDERS": "MTN"}, {"USSD_PROVIDERS"}),
        ({"USSD_PROVIDERS": "m" * 21}, {"USSD_PROVIDERS"}),
        ({"USSD_MTN_OLD_KIND": "mpesa"}, {"USSD_MTN_OLD_KIND"}),
        *(({"USSD_MTN_OLD_ACCOUNT": name}, {"USSD_MTN_OLD_ACCOUNT"}) for name in ("airtel", "sandbox", "bank", "A B")),
        ({"USSD_PROVIDER_PROXY": "proxy.example.com:3128"}, {"USSD_PROVIDER_PROXY"}),
        ({"USSD_MTN_OLD_PROXY": "https://proxy.example.com:3128"}, {"USSD_MTN_OLD_PROXY"}),
        ({"USSD_MTN_OLD_DRAINING": "yes"}, {"USSD_MTN_OLD_DRAINING"}),
        ({"USSD_MTN_OLD_BASE_URL": ""}, {"USSD_MTN_OLD_BASE_URL"}),
    ],
)
def test_a_connection_that_cannot_be_used_is_refused_by_the_name_of_its_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, changes: dict[str, str], names: set[str]
) -> None:
    assert wrong(monkeypatch, tmp_path, **BOTH | changes) == names


def test_production_requires_tls_to_providers_and_has_no_kill_points(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets.json"
    secrets.touch(0o600)
    production = {"USSD_ENV": "production", "USSD_SECRETS_FILE": str(secrets), **MTN, **AIRTEL}
    settings = read(monkeypatch, tmp_path, **production)
    assert built(settings) == ["airtel", "mtn"]
    plain = dict.fromkeys(("USSD_MTN_BASE_URL", "USSD_AIRTEL_BASE_URL", "USSD_PUBLIC_URL"), "http://127.0.0.1:1")
    given = production | plain | {"USSD_KILL_POINT": "send.recorded"}
    assert wrong(monkeypatch, tmp_path, **given) == {*plain, "USSD_KILL_POINT"}


def test_no_secret_shows_when_settings_are_printed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    printed = repr(read(monkeypatch, tmp_path, **MTN, **AIRTEL | {"USSD_AIRTEL_PIN": "airtel-pin"}))
    assert "openapi.airtel.ug" in printed
    for secret in ("an-api-key", "collection-key", "airtel-secret", "airtel-pin"):
        assert secret not in printed
