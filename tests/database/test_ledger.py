"""The ledger against statements at a database prompt: the database refuses what no application may do."""

from __future__ import annotations

import re
import sqlite3
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.conftest import MovableClock
from tests.support.money import a_client, deposit, request, work
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import is_postgres
from ussd_server.models.ledger import Account, Transfer
from ussd_server.settings import Settings

Hand = Callable[[str], Any]
Scene = dict[str, str]

_TABLES = ("transactions", "transaction_events", "ledger_accounts", "ledger_transfers", "events")
_COLUMNS = """id, client_id, transaction_id, kind, purpose, debit_account_id, credit_account_id, amount_cents, hold_id,
    created_at"""
_NOW = "'2026-01-01T00:00:00.000Z'"


@pytest.fixture
def hand(settings: Settings, services: Services) -> Iterator[Hand]:
    """A prompt of the plain driver, with none of the service's settings: each statement is its own transaction."""
    if is_postgres():
        with psycopg.connect(settings.database_url, autocommit=True) as postgres:
            yield lambda statement: postgres.execute(statement.replace("%", "%%"))
        return
    with closing(sqlite3.connect(settings.database_url.removeprefix("sqlite:///"), isolation_level=None)) as sqlite:
        yield sqlite.execute


@pytest.fixture
def scene(services: Services, clock: MovableClock) -> Scene:
    """Two clients with money, and payments of one of them in every state; the names of all rows that statements use."""
    one, other = a_client(), a_client("Other")
    deposit(services, one, 10_000)
    deposit(services, other, 10_000)

    def made(reference: str, kind: str, number: str, shillings: int) -> str:
        return services.transactions.create(
            request(kind, number, shillings, reference=reference), one
        ).transaction.transaction_id

    paid = made("paid", "disbursement", "+256770000000", 1000)
    failed = made("failed", "disbursement", "+256770000001", 1000)
    waiting = made("waiting", "disbursement", "+256770000004", 3000)
    work(services, clock)
    names = {"one": one.client_id, "other": other.client_id, "paid": paid, "failed": failed, "waiting": waiting}
    names |= {
        "new": made("new", "collection", "+256770000004", 500),
        "vast": made("vast", "collection", "+256770000004", 999_999),
    }
    for account in Account.select():
        names[f"{'one' if account.client_id == one.client_id else 'other'}_{account.name.partition(':')[0]}"] = (
            account.id
        )
    for transfer in Transfer.select().where(Transfer.kind == "hold"):
        names[
            next(name for name in ("paid", "failed", "waiting") if names[name] == transfer.transaction_id) + "_hold"
        ] = transfer.id
    names["deposit_transfer"] = Transfer.get(Transfer.kind == "move", Transfer.client_id == one.client_id).id
    return names


def transfer(
    kind: str,
    transaction: str,
    cents: object,
    debit: str = "one_main",
    credit: str = "one_provider",
    hold: str | None = None,
    client: str = "one",
    verb: str = "INSERT",
    purpose: str = "amount",
    more: str = "",
) -> str:
    """The statement that writes a transfer by hand; names in braces are filled in from the scene."""
    held = f"'{{{hold}}}'" if hold else "NULL"
    return (
        f"{verb} INTO ledger_transfers ({_COLUMNS}) VALUES ('{uuid.uuid4()}', '{{{client}}}', '{{{transaction}}}', "
        f"'{kind}', '{purpose}', '{{{debit}}}', '{{{credit}}}', {cents}, {held}, {_NOW}) {more}"
    )


def at_position(position: int, verb: str = "INSERT") -> str:
    """The statement that writes a transfer at a place of its own choosing in the book that SQLite keeps."""
    statement = transfer("move", "new", 50_000, verb=verb)
    return statement.replace("(id,", "(position, id,").replace("VALUES (", f"VALUES ({position}, ")


def account(name: str, kind: str, balance: int = 0, reserved: int = 0, verb: str = "INSERT", more: str = "") -> str:
    """The statement that opens an account by hand."""
    return (
        f"{verb} INTO ledger_accounts (id, client_id, name, kind, currency, balance_cents, reserved_cents, created_at) "
        f"VALUES ('{uuid.uuid4()}', '{{one}}', '{name}', '{kind}', 'UGX', {balance}, {reserved}, {_NOW}) {more}"
    )


def event(transaction: str, sequence: int, verb: str = "INSERT") -> str:
    """The statement that adds to a status history by hand."""
    return (
        f"{verb} INTO transaction_events (transaction_id, sequence, client_id, status, source, created_at) "
        f"VALUES ('{{{transaction}}}', {sequence}, '{{one}}', 'succeeded', 'poll', {_NOW})"
    )


_PAY = 300_000
_PROMISE = "promised"
_KEPT = "never (changed|removed|replaced|edited)"

# Statements, and the rule that must refuse each.
FORBIDDEN: list[tuple[str, str]] = [
    # Money that is not there.
    (transfer("move", "vast", 99_999_900), "no_overdraft"),
    (transfer("move", "new", 50_000, debit="nobody", credit="one_main"), "belong|foreign key"),
    (transfer("hold", "vast", 99_999_900), "no_overdraft"),
    # Ending holds twice, or holds that are not there.
    (transfer("post", "paid", 100_000, hold="paid_hold"), "unique|replaced"),
    (transfer("void", "failed", 100_000, hold="failed_hold"), "unique|replaced"),
    (transfer("post", "failed", 100_000, hold="failed_hold"), "unique|replaced"),
    (transfer("void", "paid", 100_000, hold="paid_hold"), "unique|replaced"),
    (transfer("post", "new", 50_000, hold="waiting_hold"), "repeats its hold"),
    (transfer("post", "waiting", _PAY, hold="deposit_transfer"), "repeats its hold"),
    (transfer("post", "waiting", _PAY), "check|hold comes first"),
    (transfer("move", "waiting", _PAY, hold="waiting_hold"), "check"),
    (transfer("hold", "new", 50_000, hold="waiting_hold"), "check|repeats"),
    # A post that is not what its hold was.
    (transfer("post", "waiting", _PAY - 1, hold="waiting_hold"), _PROMISE),
    (transfer("post", "waiting", _PAY, credit="one_deposits", hold="waiting_hold"), "repeats its hold"),
    (transfer("post", "waiting", _PAY, debit="one_deposits", hold="waiting_hold"), "repeats its hold"),
    (transfer("void", "waiting", _PAY, credit="one_deposits", hold="waiting_hold"), "repeats its hold"),
    # Moving twice, or beside a hold.
    (transfer("move", "paid", 100_000), "unique|replaced"),
    (transfer("hold", "paid", 100_000), "unique|replaced|hold comes first"),
    (transfer("hold", "failed", 100_000), "unique|replaced|hold comes first"),
    (transfer("move", "waiting", _PAY), "hold comes first"),
    # Another client's money, or not the promised amount.
    (transfer("move", "new", 50_000, debit="other_main", credit="one_main"), "belong"),
    (transfer("move", "new", 50_000, credit="other_main"), "belong"),
    (transfer("move", "new", 50_000, debit="other_main", credit="other_deposits", client="other"), _PROMISE),
    (transfer("move", "new", 50_001), _PROMISE),
    (transfer("move", "new", 50_000, purpose="fee"), _PROMISE),
    (transfer("move", "new", 50_000, purpose="tip"), f"check|{_PROMISE}"),
    (transfer("lend", "new", 50_000), "check"),
    # Amounts that are none.
    (transfer("move", "new", 0), f"check|{_PROMISE}"),
    (transfer("move", "new", -50_000), f"check|{_PROMISE}"),
    (transfer("move", "new", 50_000.5), f"real value|{_PROMISE}"),
    (transfer("move", "new", "'much'"), "invalid input|text value|promised"),
    (transfer("move", "new", "NULL"), "null|promised"),
    (transfer("move", "new", 50_000, credit="one_main"), "check|belong"),
    # Updates and deletions of transfers.
    ("UPDATE ledger_transfers SET amount_cents = 1 WHERE id = '{deposit_transfer}'", _KEPT),
    ("UPDATE ledger_transfers SET created_at = '2020-01-01T00:00:00.000Z'", _KEPT),
    ("DELETE FROM ledger_transfers WHERE id = '{waiting_hold}'", _KEPT),
    ("INSERT INTO ledger_transfers SELECT * FROM ledger_transfers WHERE true ON CONFLICT (id) DO UPDATE SET "
     "amount_cents = 1", _KEPT),
    # Balances by hand.
    ("UPDATE ledger_accounts SET balance_cents = 99999999 WHERE id = '{one_main}'", "only a transfer"),
    ("UPDATE ledger_accounts SET balance_cents = balance_cents", "only a transfer"),
    ("UPDATE ledger_accounts SET reserved_cents = 0 WHERE id = '{one_main}'", "only a transfer"),
    ("UPDATE ledger_accounts SET kind = 'provider' WHERE id = '{one_main}'", "only a transfer|check"),
    ("UPDATE ledger_accounts SET client_id = '{other}', name = 'mine' WHERE id = '{one_main}'", "only a transfer"),
    ("DELETE FROM ledger_accounts WHERE id = '{one_main}'", _KEPT),
    (account("+256770000009", "subscriber", 1000), "begins empty"),
    (account("+256770000009", "subscriber", 0, 1000), "begins empty|check"),
    (account("+256770000009", "provider"), "check"),
    (account("fees", "shortfall"), "check"),
    (account("gifts", "gifts"), "check"),
    (account("main", "main", more="ON CONFLICT (client_id, name) DO UPDATE SET balance_cents = 99999999"),
     "only a transfer|replaced"),
    # What a transaction promised.
    ("UPDATE transactions SET amount_cents = 1 WHERE id = '{waiting}'", _KEPT),
    ("UPDATE transactions SET fee_cents = 100 WHERE id = '{waiting}'", _KEPT),
    ("UPDATE transactions SET reference = 'other' WHERE id = '{waiting}'", _KEPT),
    ("UPDATE transactions SET client_id = '{other}' WHERE id = '{waiting}'", _KEPT),
    ("UPDATE transactions SET phone_number = '+256770000099' WHERE id = '{waiting}'", _KEPT),
    ("UPDATE transactions SET provider_reference = NULL WHERE id = '{waiting}'", _KEPT),
    ("UPDATE transactions SET type = 'collection' WHERE id = '{waiting}'", _KEPT),
    ("DELETE FROM transactions WHERE id = '{new}'", _KEPT),
    # States that are final, and steps that there are not.
    ("UPDATE transactions SET status = 'failed', failure_code = 'CANCELLED' WHERE id = '{paid}'", "final"),
    ("UPDATE transactions SET status = 'pending', completed_at = NULL WHERE id = '{paid}'", "final"),
    ("UPDATE transactions SET status = 'pending', completed_at = NULL, failure_code = NULL WHERE id = '{failed}'",
     "final"),
    ("UPDATE transactions SET status = 'succeeded', failure_code = NULL WHERE id = '{failed}'", "final"),
    ("UPDATE transactions SET status = 'created' WHERE id = '{waiting}'", "final"),
    ("UPDATE transactions SET status = 'submitted' WHERE id = '{waiting}'", "final"),
    ("UPDATE transactions SET status = 'reversed', completed_at = created_at WHERE id = '{waiting}'", "final"),
    ("UPDATE transactions SET status = 'failed' WHERE id = '{waiting}'", "check"),
    ("UPDATE transactions SET due_at = NULL WHERE id = '{waiting}'", "check"),
    # The status history.
    ("UPDATE transaction_events SET status = 'succeeded' WHERE transaction_id = '{waiting}'", _KEPT),
    ("DELETE FROM transaction_events WHERE transaction_id = '{waiting}'", _KEPT),
    (event("waiting", 9), "no gaps"),
    (event("waiting", 1), "unique|replaced"),
    (event("waiting", 0), "check"),
    # Events, which clients have received.
    ("UPDATE events SET payload = '{{}}' WHERE object_id = '{waiting}'", _KEPT),
    ("UPDATE events SET sequence = sequence + 1 WHERE object_id = '{waiting}'", _KEPT),
    ("UPDATE events SET type = 'transaction.failed' WHERE object_id = '{waiting}'", _KEPT),
    ("DELETE FROM events WHERE object_id = '{waiting}'", _KEPT),
]  # fmt: skip

_BORN_SUCCEEDED = """
    INSERT INTO transactions (id, client_id, type, status, amount_cents, fee_cents, currency, account, reference,
        request_digest, late, created_at, updated_at, ask_attempts, checks, completed_at, due_source)
    SELECT '{one_main}', client_id, type, 'succeeded', amount_cents, 0, currency, account, 'born', '', late, created_at,
        created_at, 0, 0, created_at, due_source FROM transactions WHERE id = '{new}'"""

_ENTRY = """INSERT INTO ledger_transfers SELECT * FROM jsonb_populate_recordset(
    NULL::ledger_transfers, '[{{"id": "{one_main}", "client_id": "{one}", "transaction_id": "{new}", "kind": "move",
    "purpose": "amount", "debit_account_id": "{one_main}", "credit_account_id": "{one_provider}", "amount_cents": %s,
    "created_at": "2026-01-01T00:00:00.000Z"}}]')"""

ON_POSTGRES: list[tuple[str, str]] = [
    (_BORN_SUCCEEDED, "begins as created"),
    *((f"TRUNCATE {table} CASCADE", _KEPT) for table in (*_TABLES, "clients")),
    (_ENTRY % "50000.5", "invalid input syntax"),
    (_ENTRY % "9223372036854775808", "out of range"),
    ("WITH paid AS (" + transfer("move", "new", 50_000, more="RETURNING id") + ") "
     "UPDATE ledger_accounts SET balance_cents = 5 FROM paid", "only a transfer"),
    ("MERGE INTO ledger_accounts AS a USING (SELECT 1) AS x ON a.id = '{one_main}' WHEN MATCHED THEN DELETE", _KEPT),
]  # fmt: skip

# REPLACE deletes without asking the triggers for deletions; IGNORE steps over constraints, also inside triggers.
ON_SQLITE: list[tuple[str, str]] = [
    (_BORN_SUCCEEDED, "begins as created"),
    (transfer("move", "vast", 99_999_900, verb="INSERT OR IGNORE"), "no_overdraft"),
    (transfer("hold", "vast", 99_999_900, verb="INSERT OR IGNORE"), "no_overdraft"),
    (transfer("move", "vast", 99_999_900, verb="INSERT OR REPLACE"), "no_overdraft"),
    (transfer("move", "paid", 100_000, verb="INSERT OR REPLACE"), "replaced"),
    (transfer("void", "paid", 100_000, hold="paid_hold", verb="REPLACE"), "replaced"),
    (transfer("post", "failed", 100_000, hold="failed_hold", verb="INSERT OR REPLACE"), "replaced"),
    (account("main", "main", verb="INSERT OR REPLACE"), "replaced"),
    ("INSERT OR REPLACE INTO ledger_accounts SELECT id, client_id, name, kind, currency, 0, 0, 0, created_at, 0 "
     "FROM ledger_accounts", "replaced"),
    ("INSERT OR REPLACE INTO ledger_transfers SELECT * FROM ledger_transfers", "replaced"),
    ("INSERT OR REPLACE INTO transactions SELECT * FROM transactions WHERE status = 'created'", "replaced"),
    (event("waiting", 1, verb="INSERT OR REPLACE"), "replaced"),
    ("INSERT OR REPLACE INTO events SELECT * FROM events", "replaced"),
    ("INSERT OR REPLACE INTO events SELECT '{one_main}', client_id, type, object_id, sequence, payload, "
     "created_at, traceparent FROM events LIMIT 1", "replaced"),
    ("UPDATE OR IGNORE ledger_accounts SET balance_cents = 99999999", "only a transfer"),
    ("UPDATE OR REPLACE ledger_accounts SET name = 'main', kind = 'main' WHERE name = 'deposits'", "only a transfer"),
    ("UPDATE OR REPLACE transactions SET reference = 'paid' WHERE id = '{new}'", _KEPT),
    ("UPDATE OR REPLACE transactions SET id = '{paid}' WHERE id = '{new}'", _KEPT),
    ("UPDATE ledger_accounts SET last_transfer = 0", "only a transfer"),
    ("UPDATE ledger_accounts SET balance_cents = balance_cents + 100, last_transfer = last_transfer + 1",
     "only a transfer"),
    ("UPDATE ledger_transfers SET position = position + 1000", _KEPT),
    (at_position(9000), "no gaps"),
    (at_position(-1), "no gaps"),
    (at_position(1, verb="REPLACE"), "replaced"),
    ("INSERT INTO ledger_transfers (rowid, id) VALUES (1, 'x')", "replaced|null"),
    ("INSERT INTO transactions (rowid, id) VALUES (1, 'x')", "no column"),
    ("DELETE FROM ledger_accounts", _KEPT),
]  # fmt: skip


def whole_book(hand: Hand) -> list[Any]:
    return [hand(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall() for table in _TABLES]


def test_statements_at_the_prompt_can_neither_make_nor_lose_money(hand: Hand, scene: Scene) -> None:
    before = whole_book(hand)
    got_through = []
    statements = FORBIDDEN + (ON_POSTGRES if is_postgres() else ON_SQLITE)
    for statement, rule in statements:
        written = statement.format_map(_Names(scene))
        try:
            hand(written)
            got_through.append(f"accepted: {written}")
        except (psycopg.Error, sqlite3.Error) as refusal:
            if not re.search(rule, str(refusal), re.IGNORECASE):
                got_through.append(f"refused by another rule ({refusal}): {written}")
    assert not got_through, "\n".join(got_through)
    assert len(statements) >= 25
    assert whole_book(hand) == before


def test_statements_at_the_prompt_may_do_what_the_service_does(hand: Hand, scene: Scene) -> None:
    """The statements above are refused for what they do, not for how they are written."""
    hand(transfer("post", "waiting", _PAY, hold="waiting_hold").format_map(scene))
    hand(transfer("move", "new", 50_000, debit="one_provider", credit="one_main").format_map(scene))
    hand(account("+256770000009", "subscriber").format_map(scene))
    hand(event("waiting", 4).format_map(scene))
    moved = hand(
        f"SELECT balance_cents, reserved_cents FROM ledger_accounts WHERE id = '{scene['one_main']}'"
    ).fetchone()
    assert moved == (1_000_000 - 100_000 - _PAY + 50_000, 0)


class _Names(dict[str, str]):
    """The scene's names; a missing name is the id of a row that does not exist."""

    def __missing__(self, name: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, name))
