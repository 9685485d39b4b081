"""The rows of a client in every table that moves with it: read, inserted and counted, the same on both databases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any

import orjson
from peewee import BlobField, BooleanField

from ussd_server.database.tables import insert_rows
from ussd_server.database.unit_of_work import run_query
from ussd_server.models import clients, incoming, keys, ledger, payouts, sending, transactions, ussd
from ussd_server.values import iso_milliseconds

_ROWS_AT_ONCE = 500
_OWN = "client_id = :client_id"
_PERSON = "IN (SELECT id FROM users WHERE client_id = :client_id)"
_PAYMENT = "transaction_id IN (SELECT id FROM transactions WHERE client_id = :client_id)"
# In the order in which rows refer to each other: which rows, and the columns of their key. Deliveries, mails and logins
# stay behind.
TABLES: Mapping[Any, tuple[str, str]] = {
    clients.Client: ("id = :client_id", "id"),
    clients.User: (_OWN, "id"),
    clients.UserFactor: (f"user_id {_PERSON}", "user_id"),
    clients.UserRecoveryCode: (f"user_id {_PERSON}", "user_id, code_digest"),
    sending.UnwantedMail: (f"person_id {_PERSON}", "person_id, kind"),
    clients.AuditEvent: (_OWN, "id"),
    keys.ApiKey: (_OWN, "id"),
    keys.DeletedApiKey: (_OWN, "apikey"),
    ussd.Menu: (_OWN, "id"),
    ussd.MenuVersion: (_OWN, "menu_id, version"),
    ussd.ServiceCode: (_OWN, "code"),
    ussd.Channel: (_OWN, "id"),
    ussd.UssdSession: (_OWN, "id"),
    ussd.SubscriberLanguage: (_OWN, "phone_number"),
    sending.Webhook: (_OWN, "id"),
    sending.Event: (_OWN, "id"),
    transactions.Fee: (_OWN, "type"),
    transactions.Transaction: (_OWN, "id"),
    transactions.StatusChange: (_PAYMENT, "transaction_id, sequence"),
    transactions.IdempotencyKey: (_OWN, "key"),
    incoming.PaymentCodePrefix: (_OWN, "client_id"),
    incoming.PaymentCode: (_OWN, "id"),
    incoming.IncomingPayment: (_PAYMENT, "id"),
    sending.Receipt: (_OWN, "type"),
    sending.Sms: (_OWN, "id"),
    ussd.ShownOutcome: (_PAYMENT, "transaction_id"),
    keys.KeySpending: ("key_id IN (SELECT key_id FROM transactions WHERE client_id = :client_id)", "key_id, day"),
    ledger.BankAccount: (_OWN, "client_id"),
    ledger.Account: (_OWN, "id"),
    ledger.Transfer: (_OWN, "id"),
    ledger.AccountEntry: (
        "account_id IN (SELECT id FROM ledger_accounts WHERE client_id = :client_id)",
        "account_id, posted_us",
    ),
    payouts.Payout: (_OWN, "id"),
    payouts.PayoutItem: ("payout_id IN (SELECT id FROM payouts WHERE client_id = :client_id)", "payout_id, line"),
}
# What the two installations know of the move itself.
_NOT_MOVED = frozenset({"moved_at", "imported_at"})


class RowsDigest:
    """The digest of rows in any order: databases sort texts differently."""

    def __init__(self) -> None:
        self.count = self._sum = 0

    def add(self, rows: Iterable[list[Any]]) -> None:
        for row in rows:
            self.count += 1
            self._sum += int.from_bytes(sha256(orjson.dumps(row)).digest())

    def written(self) -> list[Any]:
        return [self.count, f"{self._sum % 2**256:064x}"]


def columns_of_tables() -> dict[str, list[str]]:
    """The columns that are moved, by table."""
    return {table._meta.table_name: _columns(table) for table in TABLES}


def _columns(table: Any) -> list[str]:
    return [name for name in table._meta.columns if name not in _NOT_MOVED]


def totals_of(client_id: str) -> dict[str, list[Any]]:
    totals = {}
    for table in TABLES:
        digest = RowsDigest()
        for rows in batches_of(table, client_id):
            digest.add(rows)
        totals[table._meta.table_name] = digest.written()
    return totals


def batches_of(table: Any, client_id: str) -> Iterator[list[list[Any]]]:
    """The rows of a client in a table in the order of their key, a few hundred at a time."""
    columns, (condition, key) = _columns(table), TABLES[table]
    readers = [_reader(table._meta.columns[column]) for column in columns]
    places = [columns.index(name) for name in key.split(", ")]
    after = ", ".join(f":key{place}" for place in places)
    query = f"SELECT {', '.join(columns)} FROM {table._meta.table_name} WHERE {condition}"  # noqa: S608
    given, page = {"client_id": client_id}, ""
    while True:
        found = run_query(f"{query}{page} ORDER BY {key} LIMIT {_ROWS_AT_ONCE}", **given).fetchall()
        rows = [[read(value) for read, value in zip(readers, row, strict=True)] for row in found]
        if rows:
            yield rows
        if len(rows) < _ROWS_AT_ONCE:
            return
        given |= {f"key{place}": rows[-1][place] for place in places}
        page = f" AND ({key}) > ({after})"


def _reader(field: Any) -> Any:
    """What makes a value of a column, as its database gives it, the same on both databases."""
    if isinstance(field, BlobField):
        return lambda value: None if value is None else f"\\x{bytes(value).hex()}"
    if isinstance(field, BooleanField):
        return lambda value: None if value is None else bool(value)
    return lambda value: (
        iso_milliseconds(value)
        if isinstance(value, datetime)
        else value
        if value is None or isinstance(value, int | str)
        else str(value)
    )


def insert_batch(name: str, values: list[list[Any]]) -> None:
    """Insert rows that `batches_of` gave into the table of this name. Raises KeyError for another table."""
    table = {table._meta.table_name: table for table in TABLES}[name]
    rows = [dict(zip(_columns(table), row, strict=True)) for row in values]
    if any(isinstance(field, BlobField) for field in table._meta.columns.values()):
        _insert_each(table, rows)
    else:
        insert_rows(table, rows)


def _insert_each(table: Any, rows: list[dict[str, Any]]) -> None:
    """Insert rows with bytes, which no JSON document holds."""
    blobs = [name for name, field in table._meta.columns.items() if isinstance(field, BlobField)]
    for row in rows:
        row |= {name: bytes.fromhex(row[name][2:]) for name in blobs if row[name] is not None}
        values = ", ".join(f":{name}" for name in row)
        run_query(f"INSERT INTO {table._meta.table_name} ({', '.join(row)}) VALUES ({values})", **row)  # noqa: S608
