"""The restore to a point in time of docs/CLUSTER.md, which no run tries; with `-s` it prints the figures."""

from __future__ import annotations

import csv
import http.client
import time
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest

from tests.faults.failovers import Operated, operating
from tests.support.real_service.backups import Backups

pytestmark = [pytest.mark.needs_nginx, pytest.mark.needs_patroni, pytest.mark.timeout(900)]

_BEFORE, _AFTER = 10, 20


def test_no_payment_is_doubled_by_a_restore_to_a_point_in_time(tmp_path: Path) -> None:
    with operating(tmp_path) as operated:
        cluster, deployment = operated.cluster, operated.installed.deployment
        backups = Backups(cluster)
        began = time.monotonic()
        backups.make()
        made = time.monotonic() - began
        kept = [f"kept-{number}" for number in range(_BEFORE)]
        forgotten = [f"forgotten-{number}" for number in range(_AFTER)]
        assert [_pay(operated, reference) for reference in kept] == [201] * _BEFORE
        assert {row[0] for row in operated.finished()} == set(kept)
        moment = _now(cluster.database_url)
        assert [_pay(operated, reference) for reference in forgotten] == [201] * _AFTER
        names = {row[2]: row[0] for row in operated.finished()}
        backups.await_archive()

        deployment.stop()
        began = time.monotonic()
        backups.restore(moment)
        restored = time.monotonic() - began
        deployment.environment["USSD_HOLD_MONEY"] = "1"
        deployment.start()
        assert {row[0] for row in operated.finished()} == set(kept)
        assert _pay(operated, forgotten[0]) == http.client.SERVICE_UNAVAILABLE
        assert operated.installed.call("GET", "/api/transactions", None, operated.installed.key)[0] == http.client.OK

        statement, lost = tmp_path / "mtn.csv", tmp_path / "lost.csv"
        statement.write_bytes(operated.provider.statement())
        recover = ("recover", "--since", f"{moment:%Y-%m-%dT%H:%M:%SZ}", "--statement", f"mtn={statement}")
        found = deployment.command(*recover, "--csv", str(lost))["items"]
        assert {names[each["reference"]] for each in found} == set(forgotten)
        # Two operators book the half whose references the client has sent; the client repeats all.
        _claim(lost, {name: reference for name, reference in names.items() if reference in forgotten[::2]})
        booked = deployment.command(*recover, "--book", str(lost), "--by", "Mary Akello", "--and", "John Okot")
        assert len(booked["items"]) == _AFTER / 2
        deployment.stop()
        del deployment.environment["USSD_HOLD_MONEY"]
        deployment.start()
        assert {_pay(operated, reference) for reference in (*kept, *forgotten)} <= {200, 201}
        rows = operated.finished()
        assert sorted(row[0] for row in rows) == sorted((*kept, *forgotten))
        assert sorted(operated.provider.paid()) == sorted(row[2] for row in rows)
        assert len(operated.provider.book()["payments"]) == len(rows)
        assert deployment.ask("check", "--full")["ok"]
        print(f"| backup | {made:.0f} s |\n| restore of all three nodes | {restored:.0f} s |")
        print(
            f"| payments after the moment, of which booked, and repeated | {_AFTER}, {len(booked['items'])}, {_AFTER} |"
        )


def _pay(operated: Operated, reference: str) -> int:
    """Request a payment under this reference, or repeat it; the status of the answer."""
    request = {"type": "collection", "phone_number": "+256770000000", "amount": 500, "reference": reference}
    headers = {**operated.installed.key, "Idempotency-Key": reference}
    return operated.installed.call("POST", "/api/transactions", request, headers)[0]


def _now(database_url: str) -> datetime:
    with psycopg.connect(database_url) as database:
        (now,) = database.execute("SELECT clock_timestamp()").fetchone() or ()
    return now.astimezone(UTC)


def _claim(file: Path, references: dict[str, str]) -> None:
    """Write client and reference into the rows of the payments whose names at the provider these are."""
    with file.open(newline="") as rows:
        lines = list(csv.DictReader(rows))
    with file.open("w", newline="") as rows:
        written = csv.DictWriter(rows, lines[0])
        written.writeheader()
        for line in lines:
            if reference := references.get(line["provider_reference"]):
                line |= {"client": "acme", "reference": reference}
            written.writerow(line)
