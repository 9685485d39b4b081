"""Refusals of commands: one sentence, or one JSON document."""

from __future__ import annotations

import errno
import json

import click
from peewee import PeeweeException

from ussd_server.cli.examples import with_program
from ussd_server.cli.service.database_errors import explain
from ussd_server.database.connections import UnsupportedDatabaseError
from ussd_server.settings import SettingsError
from ussd_server.status import ServiceError


def print_json(refusal: click.ClickException) -> None:
    """Print a refusal as JSON on standard error; standard output stays empty."""
    shown = {"error": refusal.format_message(), "exit_status": refusal.exit_code}
    click.echo(json.dumps(shown, indent=2, ensure_ascii=False), err=True)


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
            trouble = explain(error)
            if trouble is not None:
                return click.ClickException(with_program(f"The database {trouble.found}. {trouble.mend}"))
    return None
