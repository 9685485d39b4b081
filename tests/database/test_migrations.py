"""The migrations make what the tables' classes declare, on both databases, however often they run."""

from __future__ import annotations

import importlib
import pkgutil

import pytest
from peewee import DataError, IntegrityError

from tests.support.money import a_client
from ussd_server import models
from ussd_server.bootstrap import Services
from ussd_server.database import migrations
from ussd_server.database.schema import migrate, missing_migrations
from ussd_server.database.tables import Table
from ussd_server.database.unit_of_work import database, is_postgres

# What SQLite's triggers keep to themselves.
_OF_SQLITE_ALONE = {("ledger_accounts", "last_transfer"), ("ledger_transfers", "position")}


def described_tables() -> dict[str, set[str]]:
    """The columns of every table as the classes describe them."""
    for module in pkgutil.iter_modules(models.__path__):
        if not module.ispkg:
            importlib.import_module(f"{models.__name__}.{module.name}")
    return {table._meta.table_name: set(table._meta.columns) for table in Table.__subclasses__()}


def test_every_table_has_the_columns_that_its_class_describes(services: Services) -> None:
    described = described_tables()
    made = {
        (table, column.name): column.null for table in database.get_tables() for column in database.get_columns(table)
    }
    for table, columns in described.items():
        assert {
            column for owner, column in made if owner == table and (table, column) not in _OF_SQLITE_ALONE
        } == columns
    for table in Table.__subclasses__():
        for column, field in table._meta.columns.items():
            if not field.primary_key:
                assert made[table._meta.table_name, column] == field.null, (table, column)


def test_migrating_again_changes_nothing(services: Services) -> None:
    assert missing_migrations() == []
    assert migrate() == []


def test_every_migration_has_a_number_of_its_own() -> None:
    numbers = [module.name[:4] for module in pkgutil.iter_modules(migrations.__path__)]
    assert len(set(numbers)) == len(numbers)


def test_no_column_takes_a_value_of_another_type(services: Services) -> None:
    call = a_client()
    with pytest.raises((DataError, IntegrityError)):
        database.execute_sql(f"INSERT INTO fees VALUES ('{call.client_id}', 'collection', 'much', 0)")
    if not is_postgres():
        strict = dict(database.execute_sql("SELECT name, strict FROM pragma_table_list"))
        assert [table for table in described_tables() if not strict[table]] == []


def test_money_is_kept_in_whole_numbers_of_64_bits(services: Services) -> None:
    cents = {
        column.data_type.lower()
        for table in database.get_tables()
        for column in database.get_columns(table)
        if column.name.endswith("_cents")
    }
    assert cents == ({"bigint"} if is_postgres() else {"integer"})
