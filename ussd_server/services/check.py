"""The invariant check: what must be true of money and stories, looked for in ranges while the service runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ussd_server.models.base import database, is_id, is_postgres, unhurried

_BOUND = re.compile(r":(\w+)")
_FIRST = "00000000-0000-0000-0000-000000000000"
_LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"

# Each query gives the ids, within (:low, :high], of what breaks its rule. `:low_text` and `:high_text` are the same
# bounds for columns that keep ids as text.
_CLIENT_RULES = {
    "its accounts do not add up to zero": """
        SELECT client_id FROM ledger_accounts WHERE client_id > :low AND client_id <= :high
        GROUP BY client_id HAVING sum(balance_cents) <> 0""",
}
_ACCOUNT_RULES = {
    "its balance or reservation differs from its transfers": """
        WITH legs AS (
            SELECT debit_account_id AS account_id,
                sum(CASE WHEN kind IN ('move', 'post') THEN -amount_cents ELSE 0 END) AS moved,
                sum(CASE kind WHEN 'hold' THEN amount_cents WHEN 'move' THEN 0 ELSE -amount_cents END) AS held
            FROM ledger_transfers
            WHERE debit_account_id > :low AND debit_account_id <= :high GROUP BY debit_account_id
            UNION ALL
            SELECT credit_account_id, sum(CASE WHEN kind IN ('move', 'post') THEN amount_cents ELSE 0 END), 0
            FROM ledger_transfers
            WHERE credit_account_id > :low AND credit_account_id <= :high GROUP BY credit_account_id
        ), history AS (SELECT account_id, sum(moved) AS balance, sum(held) AS reserved FROM legs GROUP BY account_id)
        SELECT id FROM ledger_accounts LEFT JOIN history ON account_id = id WHERE id > :low AND id <= :high
            AND (balance_cents <> coalesce(balance, 0) OR reserved_cents <> coalesce(reserved, 0))""",
    "it has less than nothing": """
        SELECT id FROM ledger_accounts WHERE id > :low AND id <= :high AND (reserved_cents < 0
            OR (balance_cents < reserved_cents AND kind NOT IN ('provider', 'deposits', 'shortfall')))""",
}
_TRANSACTION_RULES = {
    "a hold of it was ended twice": """
        SELECT transaction_id FROM ledger_transfers
        WHERE transaction_id > :low AND transaction_id <= :high AND hold_id IS NOT NULL
        GROUP BY transaction_id, hold_id HAVING count(*) > 1""",
    "it moved the same money twice": """
        SELECT transaction_id FROM ledger_transfers
        WHERE transaction_id > :low AND transaction_id <= :high AND kind IN ('move', 'post')
        GROUP BY transaction_id, purpose HAVING count(*) > 1""",
    "a hold of it was ended by something else than it reserved": """
        SELECT ended.transaction_id FROM ledger_transfers AS ended LEFT JOIN ledger_transfers AS held
            ON held.id = ended.hold_id AND held.kind = 'hold' AND held.transaction_id = ended.transaction_id
            AND held.purpose = ended.purpose AND held.amount_cents = ended.amount_cents
            AND held.debit_account_id = ended.debit_account_id AND held.credit_account_id = ended.credit_account_id
        WHERE ended.transaction_id > :low AND ended.transaction_id <= :high
            AND ended.kind IN ('post', 'void') AND held.id IS NULL""",
    "it moved money of another client": """
        SELECT transaction_id FROM ledger_transfers AS moved
            LEFT JOIN transactions ON transactions.id = transaction_id AND transactions.client_id = moved.client_id
            LEFT JOIN ledger_accounts AS debited
                ON debited.id = debit_account_id AND debited.client_id = moved.client_id
            LEFT JOIN ledger_accounts AS credited
                ON credited.id = credit_account_id AND credited.client_id = moved.client_id
        WHERE transaction_id > :low AND transaction_id <= :high
            AND (transactions.id IS NULL OR debited.id IS NULL OR credited.id IS NULL)""",
    "it moved money between other accounts than it names": """
        SELECT transaction_id FROM ledger_transfers AS moved
            JOIN transactions AS promise ON promise.id = transaction_id
            JOIN ledger_accounts AS debited ON debited.id = debit_account_id
            JOIN ledger_accounts AS credited ON credited.id = credit_account_id
        WHERE transaction_id > :low AND transaction_id <= :high
            AND (credited.name <> CASE
                    WHEN purpose = 'fee' THEN 'fees'
                    WHEN type IN ('collection', 'deposit') THEN account
                    WHEN type = 'transfer' THEN to_phone_number
                    ELSE 'provider:' || provider END
                OR (debited.name <> CASE
                        WHEN purpose = 'fee' THEN account
                        WHEN type = 'collection' THEN 'provider:' || provider
                        WHEN type = 'deposit' THEN 'deposits'
                        ELSE account END
                    AND NOT (debited.name = 'shortfall' AND moved.kind = 'move' AND late
                        AND type IN ('disbursement', 'refund'))))""",
    "its state and its transfers contradict each other": """
        WITH legs AS (
            SELECT transaction_id, purpose,
                sum(CASE WHEN kind IN ('move', 'post') THEN amount_cents ELSE 0 END) AS moved,
                sum(CASE kind WHEN 'hold' THEN amount_cents WHEN 'move' THEN 0 ELSE -amount_cents END) AS held
            FROM ledger_transfers WHERE transaction_id > :low AND transaction_id <= :high
            GROUP BY transaction_id, purpose
        ), promised AS (
            SELECT id, 'amount' AS purpose, type, status, amount_cents AS cents
            FROM transactions WHERE id > :low AND id <= :high
            UNION ALL
            SELECT id, 'fee', type, status, fee_cents FROM transactions WHERE id > :low AND id <= :high
        )
        SELECT id FROM promised LEFT JOIN legs ON transaction_id = id AND legs.purpose = promised.purpose
        WHERE coalesce(moved, 0) <> CASE WHEN status IN ('succeeded', 'reversed') THEN cents ELSE 0 END
            OR coalesce(held, 0) <> CASE WHEN type IN ('disbursement', 'refund')
                AND status NOT IN ('succeeded', 'reversed', 'failed') THEN cents ELSE 0 END""",
    "it is unfinished, and neither is it due nor does a person look at it": """
        SELECT id FROM transactions WHERE id > :low AND id <= :high
            AND status NOT IN ('succeeded', 'reversed', 'failed') AND due_at IS NULL
            AND (review_opened_at IS NULL OR review_closed_at IS NOT NULL)""",
    "its story has a gap or does not end where it stands": """
        WITH stories AS (
            SELECT transaction_id, count(*) AS steps, max(sequence) AS newest FROM transaction_events
            WHERE transaction_id > :low AND transaction_id <= :high GROUP BY transaction_id)
        SELECT id FROM transactions LEFT JOIN stories ON stories.transaction_id = id
            LEFT JOIN transaction_events AS told ON told.transaction_id = id AND told.sequence = newest
        WHERE id > :low AND id <= :high
            AND (newest IS NULL OR steps <> newest OR told.status <> transactions.status)""",
    "its client was not told of every change": """
        WITH stories AS (
            SELECT transaction_id, count(*) AS steps FROM transaction_events
            WHERE transaction_id > :low AND transaction_id <= :high GROUP BY transaction_id
        ), told AS (
            SELECT object_id, count(*) AS steps FROM events
            WHERE object_id > :low_text AND object_id <= :high_text AND type <> 'transaction.needs_review'
            GROUP BY object_id)
        SELECT transaction_id FROM stories LEFT JOIN told ON object_id = CAST(transaction_id AS text)
        WHERE stories.steps <> coalesce(told.steps, 0)""",
}
_EVENT_RULES = {
    "its events have a gap": """
        SELECT object_id FROM events WHERE object_id > :low_text AND object_id <= :high_text
        GROUP BY object_id HAVING count(*) <> max(sequence)""",
}


class MarkError(ValueError):
    """A mark to go on from that no check ever gave."""


@dataclass(frozen=True, slots=True)
class _Part:
    """One table to go through in the order of a column, and the rules that what is found there must keep."""

    table: str
    column: str
    rules: dict[str, str]


_PARTS = {
    "clients": _Part("clients", "id", _CLIENT_RULES),
    "accounts": _Part("ledger_accounts", "id", _ACCOUNT_RULES),
    "transactions": _Part("transactions", "id", _TRANSACTION_RULES),
    "events": _Part("events", "object_id", _EVENT_RULES),
}


@dataclass(frozen=True, slots=True)
class Violation:
    """Something that must never be: where, of which id, and what is wrong with it."""

    part: str
    id: str
    rule: str


@dataclass(frozen=True, slots=True)
class CheckedRange:
    """What one range showed: its part, how many rows it had, and the mark to go on from, None after the last one."""

    part: str
    rows: int
    violations: tuple[Violation, ...]
    mark: str | None


def check_ranges(mark: str | None = None, batch: int = 10_000) -> Iterator[CheckedRange]:
    """Check everything after `mark` (from the beginning where it is None), `batch` rows of a table at a time.

    Each range is one moment of the whole database, which no writer has to wait for; memory does not grow with the
    tables. MarkError for a mark that was never given.
    """
    names = list(_PARTS)
    name, low = _read_mark(mark) if mark is not None else (names[0], _FIRST)
    while True:
        with _snapshot():
            high, rows = _bounds(_PARTS[name], low, batch)
            violations = tuple(_violations(name, low, high))
        is_last_range = high == _LAST
        is_last_part = name == names[-1]
        part, low = name, _FIRST if is_last_range else high
        if is_last_range and not is_last_part:
            name = names[names.index(name) + 1]
        is_over = is_last_range and is_last_part
        yield CheckedRange(part, rows, violations, None if is_over else f"{name}:{low}")
        if is_over:
            return


def _read_mark(mark: str) -> tuple[str, str]:
    name, _, low = mark.partition(":")
    if name not in _PARTS or not is_id(low):
        raise MarkError("a mark is a part and an id, as this check printed it")
    return name, low


@contextmanager
def _snapshot() -> Iterator[None]:
    """A read-only look at one moment. On SQLite it must not begin as a writer, as every unit of work does."""
    if is_postgres():
        with unhurried(), database.atomic():
            database.execute_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # An account with millions of transfers takes seconds, and nobody waits for them.
            database.execute_sql("SET LOCAL statement_timeout = 0")
            yield
    else:
        with database.atomic("DEFERRED"):
            yield


def _bounds(part: _Part, low: str, batch: int) -> tuple[str, int]:
    """The end of the range that begins after `low` and has `batch` rows, and how many it really has."""
    following = f"FROM {part.table} WHERE {part.column} > :low"
    found = _run(
        f"SELECT {part.column} {following} ORDER BY {part.column} LIMIT 1 OFFSET :skipped", low=low, skipped=batch - 1
    )
    high = found[0] if found else _LAST
    (rows,) = _run(f"SELECT count(*) {following} AND {part.column} <= :high", low=low, high=high)
    return high, int(rows)


def _violations(name: str, low: str, high: str) -> Iterator[Violation]:
    for rule, query in _PARTS[name].rules.items():
        for found in _run(query, low=low, high=high, low_text=low, high_text=high):
            yield Violation(name, found, rule)


def _run(query: str, **bounds: str | int) -> list[str]:
    """The first column of what a query finds, as text."""
    if is_postgres():
        query = _BOUND.sub(r"%(\1)s", query)
    return [str(row[0]) for row in database.execute_sql(query, bounds)]
