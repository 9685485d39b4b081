"""Archives of months: what is exported is whole, and an archive that was changed is named."""

from __future__ import annotations

import csv
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import MovableClock
from tests.support.money import a_client, deposit, request, work
from ussd_server.bootstrap import Services
from ussd_server.models.sending import Event
from ussd_server.models.transactions import Transaction
from ussd_server.services.operations import months
from ussd_server.services.operations.months import export_month, verify_month
from ussd_server.status import ServiceError

pytestmark = pytest.mark.both_databases

_DAY_SECONDS = 86_400


@pytest.fixture
def month(services: Services, clock: MovableClock, monkeypatch: pytest.MonkeyPatch) -> str:
    """A month of five payments, which is over, and a payment of the next one."""
    monkeypatch.setattr(months, "_PAYMENTS_AT_ONCE", 2)
    # Until the first of a month, at noon.
    clock.advance(_DAY_SECONDS * 31)
    clock.advance((1 - clock.now().day) * _DAY_SECONDS)
    name = f"{clock.now():%Y-%m}"
    call = a_client()
    deposit(services, call, 10_000)
    for number in range(4):
        services.transactions.create(request(reference=f"r{number}", description="=1+1\n"), call)
    work(services, clock, 5)
    clock.advance(31 * _DAY_SECONDS)
    services.transactions.create(request(reference="next"), call)
    return name


def test_a_month_is_exported_whole_and_verified_without_a_database(
    services: Services, clock: MovableClock, month: str, tmp_path: Path
) -> None:
    rows = export_month(month, tmp_path, clock.now(), lambda _: None)
    assert rows["transactions"] == Transaction.select().count() - 1 == 5
    assert rows["events"] == Event.select().count() - 1
    assert verify_month(tmp_path / month) == rows
    with (tmp_path / month / "transactions.csv").open(newline="") as file:
        read = list(csv.DictReader(file))
    stored = {row.id: row for row in Transaction.select()}
    assert len({row["id"] for row in read}) == 5
    assert {row["description"] for row in read if row["type"] == "collection"} == {"=1+1\n"}
    assert all(int(row["amount_cents"]) == stored[row["id"]].amount_cents for row in read)
    checked = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path / month, check=False)
    assert checked.returncode == 0
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [month]


def test_an_archive_holds_no_secret_of_ours_and_of_an_address_only_its_server(
    services: Services, clock: MovableClock, tmp_path: Path
) -> None:
    secrets = ("ussdsk_", "whsec_")
    call = a_client()
    texts = {"description": f"{secrets[0]}aB3aB3 sent", "metadata": {"token": f"{secrets[1]}aB3="}}
    services.transactions.create(request(callback_url="http://127.0.0.1:9999/paid/aB3?token=aB3", **texts), call)
    name = f"{clock.now():%Y-%m}"
    clock.advance(32 * _DAY_SECONDS)
    export_month(name, tmp_path, clock.now(), lambda _: None)
    verify_month(tmp_path / name)
    written = "".join(file.read_text() for file in (tmp_path / name).glob("*.csv"))
    assert "aB3" not in written
    assert "http://127.0.0.1:9999," in written
    assert "******** sent" in written


def test_an_archive_that_was_changed_is_named(clock: MovableClock, month: str, tmp_path: Path) -> None:
    export_month(month, tmp_path, clock.now(), lambda _: None)
    (tmp_path / month).rename(tmp_path / "2001-01")
    with pytest.raises(ServiceError, match=r"transactions\.csv has a row of another month"):
        verify_month(tmp_path / "2001-01")
    (tmp_path / "2001-01").rename(tmp_path / month)
    with (tmp_path / month / "events.csv").open("a") as file:
        file.write("x")
    with pytest.raises(ServiceError, match=r"events\.csv is not as it was exported"):
        verify_month(tmp_path / month)
    (tmp_path / month / "events.csv").unlink()
    with pytest.raises(ServiceError, match="is missing"):
        verify_month(tmp_path / month)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", ["SHA256SUMS", "events.csv"])
def test_what_never_ends_is_no_file_of_an_archive(clock: MovableClock, month: str, tmp_path: Path, name: str) -> None:
    export_month(month, tmp_path, clock.now(), lambda _: None)
    path = tmp_path / month / name
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(ServiceError, match="no file"):
        verify_month(tmp_path / month)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(ServiceError, match="no file"):
        verify_month(tmp_path / month)


def test_a_month_is_exported_once_and_only_when_it_is_over(clock: MovableClock, month: str, tmp_path: Path) -> None:
    unknown = ("../etc", "2026-13", "2026-1", "0000-01", "9999-12")
    for wrong, reason in ((f"{clock.now():%Y-%m}", "not over"), *((each, "no month") for each in unknown)):
        with pytest.raises(ServiceError, match=reason):
            export_month(wrong, tmp_path, clock.now(), lambda _: None)
    export_month(month, tmp_path, clock.now(), lambda _: None)
    with pytest.raises(ServiceError, match="exists"):
        export_month(month, tmp_path, clock.now(), lambda _: None)
