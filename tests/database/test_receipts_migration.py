"""The claims of what is booked already: every receipt once, in its canonical form, also where it was booked twice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from testbed.postgres import create_database, drop_database
from ussd_server.database import schema
from ussd_server.database.opening import open_database
from ussd_server.database.schema import migrate
from ussd_server.database.schema_differences import schema_differences
from ussd_server.database.unit_of_work import close_connections, database, is_postgres
from ussd_server.models.incoming import IncomingPayment
from ussd_server.models.transactions import ReceiptClaim
from ussd_server.values import new_id

MIGRATIONS = Path(schema.__file__).parent / "migrations"
NOW = "2026-11-20T08:15:00.000Z"


@pytest.fixture(params=["sqlite", "postgres"])
def released(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A database of version 1.0.0."""
    server_url = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    url = create_database(server_url) if server_url else f"sqlite:///{tmp_path}/released.db"
    folder = tmp_path / "migrations"
    folder.mkdir()
    shutil.copy(MIGRATIONS / "0001_baseline.py", folder)
    open_database(url, 4)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "_DIRECTORY", folder)
        migrate()
    yield
    close_connections()
    if server_url:
        drop_database(server_url, url)


def insert(table: str, **columns: Any) -> str:
    mark = "%s" if is_postgres() else "?"
    columns = {"id": new_id(datetime.now(UTC)), **columns}
    names, places = ", ".join(columns), ", ".join([mark] * len(columns))
    database.execute_sql(f"INSERT INTO {table} ({names}) VALUES ({places})", tuple(columns.values()))
    return str(columns["id"])


def paid(client_id: str, reference: str, receipt: str | None, kind: str = "collection", **more: Any) -> str:
    """A payment that succeeded, without its money and history, which claims do not read."""
    made = insert(
        "transactions",
        **{
            "client_id": client_id, "type": kind, "status": "created", "amount_cents": 5000_00, "fee_cents": 0,
            "currency": "UGX", "account": "main", "provider": None if kind == "settlement" else "mtn",
            "provider_transaction_id": receipt, "reference": reference, "request_digest": "", "late": False,
            "created_at": NOW, "updated_at": NOW, "ask_attempts": 0, "checks": 0, "due_at": NOW, "due_source": "poll",
        } | more,
    )  # fmt: skip
    mark = "%s" if is_postgres() else "?"
    database.execute_sql(
        f"UPDATE transactions SET status = 'succeeded', completed_at = {mark} WHERE id = {mark}", (NOW, made)
    )
    return made


def came(receipt: str, transaction_id: str | None = None) -> str:
    return insert(
        "incoming_payments",
        provider="mtn",
        provider_transaction_id=receipt,
        amount_cents=5000_00,
        status="booked" if transaction_id else "held",
        transaction_id=transaction_id,
        received_at=NOW,
        updated_at=NOW,
    )


def test_what_is_booked_has_its_claim_after_the_upgrade(released: None) -> None:
    client = insert("clients", name="school", is_active=True, created_at=NOW, updated_at=NOW)
    first = paid(client, "c1", "mt-1")
    paid(client, "c2", "MT1")
    payers = paid(client, "in/R2", "R2", origin="payer")
    settled = paid(client, "bank/FT1", "ft 1", kind="settlement")
    paid(client, "c3", None)
    paid(client, "c4", " - ")
    reported = paid(client, "c5", "R5")
    booked, waiting = came("R2", payers), came("R5")
    came("r-5")
    waiting_alone = came("R6")
    assert "0002_receipts" in migrate()
    claims = {(row.issuer, row.receipt): (row.transaction_id, row.incoming_id) for row in ReceiptClaim.select()}
    assert claims == {
        ("mtn", "MT1"): (first, None),
        ("mtn", "R2"): (payers, booked),
        ("bank", "FT1"): (settled, None),
        ("mtn", "R5"): (reported, waiting),
        ("mtn", "R6"): (None, waiting_alone),
    }
    row = IncomingPayment.get_by_id(waiting)
    assert (row.status, row.transaction_id) == ("booked", reported)
    assert schema_differences() == []
    assert migrate() == []
