"""`clients export` and `clients import`: move a client to another installation."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import click

from ussd_server.cli import services
from ussd_server.cli.commands import command, show
from ussd_server.cli.names import client_named, file_argument, two_people
from ussd_server.context import operator_context
from ussd_server.services.clients.moves import MovedClient, moved_client
from ussd_server.values import written_amount

_LONGEST_LINE_BYTES = 64 * 1024 * 1024


@command(name="export", example="acme acme.jsonl")
@click.argument("client")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def export_client(client: str, file: Path) -> None:
    """Write the disabled CLIENT (name or id) into the new FILE, and never enable it here again.

    The file has its keys, people, menus, balances and history. Its secrets are encrypted under the master keys, which
    the other installation needs too. Nothing may be under way. Exported again, it is the same.
    """
    client_id = client_named(client).client_id
    lines = services().client_moves.export(client_id, operator_context())
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise click.ClickException(f"{file} exists.") from None
    with os.fdopen(descriptor, "wb") as target:
        target.writelines(lines)
        target.flush()
        os.fsync(target.fileno())
    moved = moved_client(client_id)
    show(moved, f"{file} has {_sentence(moved)}")


@command(name="import", example="acme.jsonl")
@file_argument
def import_client(file: Path) -> None:
    """Take the client in FILE, which `clients export` wrote in another installation. It stays disabled.

    Either everything is there afterwards as it was exported, or nothing. Other clients wait while it is inserted. Then
    run `ussd-server check`, lead its calls here, and enable it.
    """
    with file.open("rb") as source:
        lines = iter(partial(source.readline, _LONGEST_LINE_BYTES), b"")
        moved = services().client_moves.take(lines, operator_context())
    show(moved, f"This installation has {_sentence(moved)}")


@command(name="take-back", example="acme --reason 'The import failed' --by Ann --and Ben")
@click.argument("client")
@click.option("--reason", required=True, help="Why, in 1 to 200 characters. The client's owners read it.")
@two_people("The name of a second operator.")
def take_back_client(client: str, reason: str, by: str, second: str) -> None:
    """Let the exported CLIENT (name or id) be enabled here again. Only if it is in no other installation."""
    found = client_named(client)
    services().client_moves.take_back(found.client_id, by, second, reason, operator_context())
    show(found, f"{found.name} can be enabled here again.")


def _sentence(moved: MovedClient) -> str:
    return (
        f"{moved.name}, {moved.client_id}: {sum(moved.rows.values()):,} rows, balance "
        f"{written_amount(moved.balance_cents)}, succeeded {written_amount(moved.paid_cents)}, digest {moved.digest}."
    )
