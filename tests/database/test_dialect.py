"""What differs by database is in two files, each method opposite its twin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import ussd_server
from ussd_server.database.dialect import Dialect
from ussd_server.database.postgres import Postgres
from ussd_server.database.sqlite import Sqlite

PACKAGE = Path(ussd_server.__file__).parent
# Words of one database, or of its driver.
DIALECT = re.compile(r"\b(is_postgres|psycopg|sqlite3|jsonb|json_each|julianday|pg_\w+)\b")
# Exceptions: patching before every import, and the explanation of a database's errors to operators.
EXPLAINS = {"server/patched.py", "cli/refusals.py"}


def methods(dialect: type[Dialect]) -> list[str]:
    return [name for name, value in vars(dialect).items() if callable(value) and not name.startswith("_")]


@pytest.mark.parametrize("twin", [Postgres, Sqlite])
def test_the_twins_have_the_same_methods_in_the_same_order(twin: type[Dialect]) -> None:
    assert methods(twin) == methods(Dialect)


def test_nothing_outside_the_folder_of_the_database_speaks_a_dialect() -> None:
    speakers = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if PACKAGE / "database" not in path.parents and DIALECT.search(path.read_text())
    }
    assert speakers == EXPLAINS
