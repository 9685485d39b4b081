"""Refusals of commands: one sentence, or one JSON document."""

from __future__ import annotations

import errno
import json
import re
from dataclasses import dataclass

import click
from peewee import PeeweeException

from ussd_server.cli.commands import with_program
from ussd_server.database.dialect import UnsupportedDatabaseError
from ussd_server.database.unit_of_work import DATABASE_ERRORS
from ussd_server.settings import SettingsError
from ussd_server.status import ServiceError


def print_json(refusal: click.ClickException) -> None:
    """Print a refusal as JSON on standard error; standard output stays empty."""
    answer = {"error": refusal.format_message(), "exit_status": refusal.exit_code}
    click.echo(json.dumps(answer, indent=2, ensure_ascii=False), err=True)


def refusal_of(error: Exception) -> click.ClickException | None:
    """Return a refusal that says what went wrong and what to do; None for a fault of the program."""
    match error:
        case click.ClickException():
            return error
        case SettingsError() | ServiceError() | UnsupportedDatabaseError():
            return click.ClickException(with_program(str(error)))
        case PermissionError():
            return click.ClickException(f"This user may not read or write {error.filename}.")
        case OSError(filename=None):
            is_full = error.errno == errno.ENOSPC
            return click.ClickException("There is no space left for the output.") if is_full else None
        case OSError():
            return click.ClickException(f"{error.filename} cannot be read or written: {error.strerror}.")
        case PeeweeException():
            fault = explain(error)
            if fault is not None:
                return click.ClickException(with_program(f"The database {fault.problem}. {fault.mend}"))
    return None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The error, to follow "the database", and a sentence on how to repair it."""

    problem: str
    mend: str


_CORRECT = "correct USSD_DATABASE_URL"
AWAY = Explanation("does not answer", f"Start it, or {_CORRECT}.")
# By the server's text: psycopg has no SQLSTATE for a connection that failed.
_TROUBLES = (
    (
        r"invalid (URI|connection|port|percent)|invalid .* value|missing \"=\"",
        "has an address that PostgreSQL does not take",
        "Correct USSD_DATABASE_URL.",
    ),
    (
        r"authentication failed|pg_hba\.conf|no password supplied|not permitted to log in",
        "does not let this user in",
        f"Run this as the user that the database knows, let the user in (pg_hba.conf), or {_CORRECT}.",
    ),
    (
        r"no such (table|column)|(relation|column) .* does not exist",
        "lacks what this version needs",
        "Run `ussd-server migrate`.",
    ),
    (
        r"FATAL: .* does not exist",
        "or its user does not exist",
        f"Make them (`createuser`, `createdb --owner`), or {_CORRECT}.",
    ),
    (
        r"permission denied|must be owner|read-?only",
        "does not give this user the rights it needs",
        "Make the user the owner of the database and of everything in it; on SQLite, of the file and its folder.",
    ),
    (r"SSL|certificate", "does not agree with us about TLS", "Check sslmode and sslrootcert in USSD_DATABASE_URL."),
    (
        r"too many|connection slots",
        "has no connection left",
        "Raise max_connections; docs/OPERATIONS.md, Growing, says how many are used.",
    ),
    (
        r"unable to open database file",
        "is a file that cannot be opened",
        f"Check that its folder is there and belongs to this user, or {_CORRECT}.",
    ),
    (
        r"not a database|malformed",
        "is a file that is damaged or something else",
        f"Restore it from a backup, or {_CORRECT}.",
    ),
    (r"disk|No space left|database or disk is full", "has no room left", "Make room on its disk."),
    (
        r"is locked|lock timeout|canceling statement|deadlock",
        "is locked by another connection",
        "Try again; pg_stat_activity shows who holds it.",
    ),
)


def explain(error: PeeweeException) -> Explanation | None:
    """Return what is wrong with the database; None when one of our statements is wrong instead."""
    text = str(error)
    for words, problem, mend in _TROUBLES:
        if re.search(words, text):
            return Explanation(problem, mend)
    # SQLite reports wrong statements as operational errors.
    is_ours = "syntax error" in text or not isinstance(error, DATABASE_ERRORS)
    return None if is_ours else AWAY
