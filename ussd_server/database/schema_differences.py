"""Compares the live schema with what the migrations make: columns, constraints, indexes, triggers, functions."""

from __future__ import annotations

import secrets
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from typing import Any, NamedTuple

from peewee import SqliteDatabase

from ussd_server.database.schema import migrations
from ussd_server.database.unit_of_work import database, is_postgres


class Difference(NamedTuple):
    """A difference between the live schema and the migrations: the table, and what is wrong with it."""

    table: str
    fault: str


class _Item(NamedTuple):
    """A column, constraint, index, trigger or function. `definition` is empty where `name` is the definition."""

    kind: str
    name: str
    definition: str


_Schema = dict[tuple[str, str], frozenset[_Item]]
"""Parts by (table of the migrations, table), which differ for a partition; functions have the table ``."""

# Additions of these kinds are reported, because they could change money. Added columns and indexes do no harm.
_UNWELCOME = ("trigger", "disabled trigger of", "rule")


def schema_differences() -> list[Difference]:
    """Return every difference; an empty list is healthy.

    PostgreSQL migrates a schema for the comparison, in a transaction that is rolled back; the first call in a process
    therefore needs the right to create one, and must not be made within a transaction that only reads.
    """
    steps = migrations()
    differences = [Difference("", f"lacks the migration {step.name}") for step in steps if not step.applied]
    differences += [
        Difference("", f"has the migration {step.name}, unknown to this version") for step in steps if not step.path
    ]
    if differences:
        return differences
    expected = _expected(tuple(step.name for step in steps), is_postgres())
    if not is_postgres():
        return sorted(set(_compared(expected, _read_sqlite(database))))
    (role,) = database.execute_sql("SELECT current_setting('session_replication_role')").fetchone()
    if role != "origin":
        differences.append(Difference("", f"runs no triggers, because session_replication_role is {role}"))
    return differences + sorted(set(_compared(expected, _read_postgres())))


@cache
def _expected(_names: tuple[str, ...], postgres: bool) -> _Schema:
    if not postgres:
        with closing(SqliteDatabase(":memory:")) as fresh:
            _migrate(fresh)
            return _read_sqlite(fresh)
    with database.atomic() as transaction:
        name = f"reference_{secrets.token_hex(4)}"
        database.execute_sql(f"CREATE SCHEMA {name}")
        database.execute_sql(f"SET LOCAL search_path = {name}")
        _migrate(_WithinTransaction())
        made = _read_postgres()
        transaction.rollback()
    return made


class _WithinTransaction:
    """The open database for migrations that build indexes concurrently, which PostgreSQL forbids in a transaction."""

    def execute_sql(self, statement: str, *parameters: Any) -> Any:
        return database.execute_sql(statement.replace(" CONCURRENTLY", ""), *parameters)


def _migrate(fresh: Any) -> None:
    for step in migrations():
        step.load().up(None, fresh)


def _compared(expected: _Schema, live: _Schema) -> Iterator[Difference]:
    for (table, _), items in expected.items():
        parts = {part: part_items for (of, part), part_items in live.items() if of == table}
        if not parts:
            yield Difference(table, "is missing")
            continue
        # The rows of a partitioned table lie in its partitions, so each partition needs the constraints too.
        whole = parts.pop(table, frozenset()) if len(parts) > 1 else frozenset()
        for item in items:
            if "TRUNCATE" in item.definition and whole:
                missing = item not in whole
            else:
                missing = any(item not in part_items for part_items in parts.values())
            if missing:
                yield Difference(table, f"has lost or changed {_named(item)}")
        names = {(item.kind, item.name) for item in items}
        for item in whole.union(*parts.values()):
            if item.kind in _UNWELCOME and (item.kind, item.name) not in names:
                yield Difference(table, f"has {_named(item)}, which no migration makes")


def _named(item: _Item) -> str:
    return f"the {item.kind} {item.name}".rstrip()


def _read_sqlite(source: Any) -> _Schema:
    schema = defaultdict(set)
    for kind, name, table, definition in source.execute_sql("SELECT type, name, tbl_name, sql FROM sqlite_schema"):
        if definition is not None:
            written = " ".join(definition.split()).replace("( ", "(").replace(" )", ")")
            schema[table, table].add(_Item(kind, "" if kind == "table" else name, written))
    return {table: frozenset(items) for table, items in schema.items()}


def _read_postgres() -> _Schema:
    schema = defaultdict(set)
    for table, part, *item in database.execute_sql(_CATALOG):
        schema[table, part].add(_Item(*item))
    return {table: frozenset(items) for table, items in schema.items()}


# Constraints and indexes are compared by definition, because partitions name them differently. A trigger's text names
# its table, which differs for a partition.
_CATALOG = r"""
WITH tables AS (
    SELECT part.oid, part.relname::text AS part, coalesce(whole.relname, part.relname)::text AS name,
        part.relpersistence, part.relrowsecurity
    FROM pg_class AS part LEFT JOIN pg_inherits ON inhrelid = part.oid
        LEFT JOIN pg_class AS whole ON whole.oid = inhparent
    WHERE part.relkind IN ('r', 'p')
        AND part.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
)
SELECT name, part, 'durability', '', concat(relpersistence, relrowsecurity) FROM tables
UNION ALL
SELECT name, part, 'column', attname::text,
    concat_ws(' ', format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid))
FROM tables JOIN pg_attribute ON attrelid = oid LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attnum > 0 AND NOT attisdropped
UNION ALL
SELECT name, part, 'constraint', pg_get_constraintdef(pg_constraint.oid, true), ''
FROM tables JOIN pg_constraint ON conrelid = tables.oid WHERE contype IN ('c', 'f')
UNION ALL
SELECT name, part, CASE WHEN indisunique THEN 'unique index' ELSE 'index' END,
    regexp_replace(pg_get_indexdef(indexrelid, 0, true), '^.* USING | WITH \([^)]*\)', '', 'g'),
    concat(indisvalid, indisready)
FROM tables JOIN pg_index ON indrelid = oid
UNION ALL
SELECT name, part, 'trigger', tgname::text,
    concat(replace(pg_get_triggerdef(pg_trigger.oid, true), format(' ON %%s ', part), ' ON '), ' ', tgenabled)
FROM tables JOIN pg_trigger ON tgrelid = tables.oid WHERE tgconstraint = 0
UNION ALL
SELECT name, part, 'disabled trigger of', pg_get_constraintdef(tgconstraint, true), ''
FROM tables JOIN pg_trigger ON tgrelid = tables.oid WHERE tgconstraint <> 0 AND tgenabled NOT IN ('O', 'A')
UNION ALL
SELECT name, part, 'rule', rulename::text, '' FROM tables JOIN pg_rewrite ON ev_class = tables.oid
UNION ALL
SELECT '', '', 'function', format('%%s(%%s)', proname, pg_get_function_identity_arguments(oid)),
    concat_ws(' ', prosrc, prosecdef, proconfig)
FROM pg_proc WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
    AND prokind = 'f'
"""
