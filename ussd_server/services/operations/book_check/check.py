"""The invariant check of money, status histories, events and the schema, range by range."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import zip_longest

from ussd_server.database.schema_differences import schema_differences
from ussd_server.database.unit_of_work import database_now, dialect, run_query
from ussd_server.models.operations import read_service_clock
from ussd_server.security.key_ring import Vault
from ussd_server.services.operations.book_check import money
from ussd_server.services.operations.book_check.history import history_faults
from ussd_server.services.operations.book_check.history_digests import past_faults
from ussd_server.services.operations.book_check.payouts import PAYOUT_RULES, approval_faults, rules_faults
from ussd_server.services.operations.book_check.sums import OTHER_SUM, account_sums
from ussd_server.services.reconciliation.days.proofs import day_faults
from ussd_server.services.signatures import unsigned_rows
from ussd_server.values import is_id, iso_milliseconds, new_id_floor

_FIRST = "00000000-0000-0000-0000-000000000000"
_LAST = "ffffffff-ffff-ffff-ffff-ffffffffffff"
# Longer than every lease and every pause between attempts that the service sets.
_LONGEST_LEASE = timedelta(minutes=10)
_LONGEST_PAUSE = timedelta(days=2)
_FURTHEST_AHEAD = timedelta(days=1)
# How many rows are compared at a time, because all that is written about them is in memory.
_COMPARED_TOGETHER = 500

_EVENT_RULES = {
    "has a gap in its events": """
        SELECT object_id FROM events WHERE object_id > :low_text AND object_id <= :high_text
        GROUP BY object_id HAVING count(*) <> max(sequence) OR count(DISTINCT sequence) <> max(sequence)""",
    "is a session that ended without an event of it, or has such an event and did not end": """
        WITH ended AS MATERIALIZED (
            SELECT CAST(id AS text) AS id FROM ussd_sessions WHERE id > :low AND id <= :high AND ended_at IS NOT NULL
        ), reported AS MATERIALIZED (
            SELECT object_id AS id FROM events
            WHERE object_id > :low_text AND object_id <= :high_text AND type = 'ussd.session.ended')
        SELECT id FROM (SELECT id FROM ended EXCEPT SELECT id FROM reported) AS unreported
        UNION ALL SELECT id FROM (SELECT id FROM reported EXCEPT SELECT id FROM ended) AS unended""",
}
_DELIVERY_RULES = {
    "has a due time far ahead": """
        SELECT id FROM deliveries WHERE id > :low AND id <= :high AND due_at > :latest_due""",
}
_SESSION_RULES = {
    "has a lease or a due time far ahead": """
        SELECT id FROM ussd_sessions WHERE id > :low AND id <= :high
            AND (working_until > :latest_lease OR expires_at > :latest_due OR due_at > :latest_due)""",
}


class MarkError(ValueError):
    """The mark is not one that a check has printed."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A table to check in the order of a column, the word for one row, and the rules for its rows.

    `rules` are queries for violations. `compare` yields the id and the broken rule of each violation within (low, high]
    that no query finds; digests are verified with the vault.
    """

    noun: str
    table: str
    column: str = "id"
    rules: Mapping[str, str] = field(default_factory=dict)
    compare: Callable[[str, str, Vault | None], Iterator[tuple[str, str]]] | None = None


def _signed_part(noun: str, table: str, column: str = "id", rules: Mapping[str, str] | None = None) -> _Part:
    return _Part(noun, table, column, rules or {}, partial(unsigned_rows, table))


_SCHEMA = "schema"
_CLOCK = "clock"
_SUMS = "sums"
_PARTS = {
    "clients": _Part("Client", "clients", rules=money.CLIENT_RULES),
    "accounts": _Part("Account", "ledger_accounts", rules=money.ACCOUNT_RULES),
    "transactions": _Part("Transaction", "transactions", rules=money.TRANSACTION_RULES, compare=history_faults),
    "movements": _Part("Movement", "movements", rules=money.MOVEMENT_RULES),
    "movement_uses": _signed_part("The use of a movement", "movement_uses"),
    "api_keys": _signed_part("API key", "api_keys"),
    "bank_accounts": _signed_part("The bank account of client", "bank_accounts", "client_id"),
    "prefixes": _signed_part("The prefix of client", "payment_code_prefixes", "client_id"),
    "payment_codes": _signed_part("Payment code", "payment_codes"),
    "keys": _Part("API key", "key_spending", "key_id", rules=money.KEY_RULES),
    "approval_rules": _Part("The approval rules of", "approval_rules", "client_id", compare=rules_faults),
    "payouts": _Part("Payout", "payouts", rules=PAYOUT_RULES, compare=approval_faults),
    "events": _Part("Object", "events", "object_id", rules=_EVENT_RULES),
    "deliveries": _Part("Delivery", "deliveries", rules=_DELIVERY_RULES),
    "closed_days": _Part("The close of", "day_proofs", compare=day_faults),
    "past_days": _Part("The past of", "history_digests", compare=past_faults),
    "sessions": _Part("Session", "ussd_sessions", rules=_SESSION_RULES),
}
_DAYS = ("closed_days", "past_days")
# All of these are checked each time, with all their movements: a fortieth of the work, and the proof of the money.
_LASTING = frozenset({
    "clients", "accounts", "keys", "api_keys", "approval_rules", "bank_accounts", "prefixes", "payment_codes",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule: its part, the id, and what is wrong, as a phrase that follows the id.

    In the part `schema` the id is the name of a table, or `database` for what belongs to none; in the part `clock` it
    is `service_clock`, and in the part `sums` a provider or `bank`.
    """

    part: str
    id: str
    rule: str

    def __str__(self) -> str:
        noun = {_SCHEMA: "The schema of", _CLOCK: "The row of", _SUMS: "The account of"}.get(self.part) or _PARTS[
            self.part
        ].noun
        return f"{noun} {self.id} {self.rule}."


@dataclass(frozen=True, slots=True)
class CheckedRange:
    """The result of one range: its part, its number of rows, and the mark of the next range, None after the last."""

    part: str
    rows: int
    violations: tuple[Violation, ...]
    mark: str | None


def check_ranges(
    mark: str | None = None,
    batch: int = 10_000,
    now: datetime | None = None,
    vault: Vault | None = None,
    since: datetime | None = None,
) -> Iterator[CheckedRange]:
    """Check everything after `mark` (from the beginning where it is None), `batch` rows of a table at a time.

    With `since`, only payments, payouts, sessions, events, deliveries and days that began later; clients, accounts and
    keys all the same.

    The schema comes first, as one range. Each further range is a snapshot of the whole database and blocks no writer;
    memory does not grow with the tables. `now` is what leases and due times are measured from, the database's time
    where it is None. `vault` verifies digests; without it, only their contents are compared. Raises MarkError for a
    mark that no check returned.
    """
    if mark is None:
        mark = f"{next(iter(_PARTS))}:{_FIRST}"
        violations = (*_schema_violations(), *_clock_violations(), *_sum_violations())
        yield CheckedRange(_SCHEMA, 1, violations, mark)
    name, low = _read_mark(mark)
    now = now or database_now()
    limits = {"latest_lease": now + _LONGEST_LEASE, "latest_due": now + _LONGEST_PAUSE}
    bounds = {limit: iso_milliseconds(moment) for limit, moment in limits.items()}
    parts = list(_PARTS)[list(_PARTS).index(name) :]
    for name, following in zip_longest(parts, parts[1:]):
        start = _FIRST if since is None or following in _LASTING else new_id_floor(since)
        high = ""
        while high != _LAST:
            with dialect().snapshot():
                # A day may have as many payments as a range of them.
                high, rows = _bounds(_PARTS[name], low, 1 if name in _DAYS else batch)
                violations = tuple(_violations(name, low, high, bounds, vault))
            low = high
            mark = f"{name}:{high}" if high != _LAST else f"{following}:{start}" if following else None
            yield CheckedRange(name, rows, violations, mark)
        low = start


def _read_mark(mark: str) -> tuple[str, str]:
    name, _, low = mark.partition(":")
    if name not in _PARTS or not is_id(low):
        raise MarkError("a mark is a part and an id, as this check printed it")
    return name, low


def _schema_violations() -> Iterator[Violation]:
    """Differences between the schema and the migrations, and, where a table differs, names that are used twice."""
    differences = schema_differences()
    for table, fault in differences:
        yield Violation(_SCHEMA, table or "database", fault)
    parts = {part.table: name for name, part in _PARTS.items()}
    with dialect().snapshot():
        for table in {difference.table for difference in differences} & money.NAME_RULES.keys():
            yield from _violations_of_rules(parts[table], money.NAME_RULES[table], {})


def _clock_violations() -> Iterator[Violation]:
    """Report a service time that is far from the database's time: deadlines would be wrong."""
    reading = read_service_clock()
    if reading.decided_at is None:
        yield Violation(_CLOCK, "service_clock", "is missing, or cannot be true, so that no process follows it")
    elif abs(reading.ahead) > _FURTHEST_AHEAD:
        yield Violation(
            _CLOCK, "service_clock", "puts the service's time more than a day before or after the database's"
        )


def _sum_violations() -> Iterator[Violation]:
    """Accounts at a provider or the bank whose ledger is not the sum of the movements that transactions use."""
    with dialect().snapshot():
        for sums in account_sums():
            if sums.ledger_cents != sums.used_cents:
                yield Violation(_SUMS, sums.account, OTHER_SUM)


def _bounds(part: _Part, low: str, batch: int, highest: str = _LAST) -> tuple[str, int]:
    """The end of the range that begins after `low` and has `batch` rows, and how many it really has."""
    following = f"FROM {part.table} WHERE {part.column} > :low AND {part.column} <= :highest"
    last = f"SELECT {part.column} {following} ORDER BY {part.column} LIMIT 1 OFFSET :skipped"
    last_row = run_query(last, low=low, highest=highest, skipped=batch - 1).fetchone()
    high = str(last_row[0]) if last_row else highest
    (rows,) = run_query(f"SELECT count(*) {following}", low=low, highest=high).fetchone()
    return high, int(rows)


def _violations(name: str, low: str, high: str, limits: dict[str, str], vault: Vault | None) -> Iterator[Violation]:
    part = _PARTS[name]
    yield from _violations_of_rules(
        name, part.rules, {"low": low, "high": high, "low_text": low, "high_text": high} | limits
    )
    while part.compare is not None and low != high:
        end, _ = _bounds(part, low, _COMPARED_TOGETHER, high)
        for object_id, rule in part.compare(low, end, vault):
            yield Violation(name, object_id, rule)
        low = end


def _violations_of_rules(name: str, rules: Mapping[str, str], parameters: Mapping[str, str]) -> Iterator[Violation]:
    for rule, query in rules.items():
        query = query.replace("{made_us}", dialect().microseconds("moved.created_at"))
        query = query.replace("{kampala_day}", dialect().kampala_day("created_at"))
        for object_id in dict.fromkeys(str(row[0]) for row in run_query(query, **parameters)):
            yield Violation(name, object_id, rule)
