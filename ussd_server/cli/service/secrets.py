"""`secrets`: the master keys and the reference key."""

from __future__ import annotations

from pathlib import Path

import click

from ussd_server.cli import open_services, show, with_json
from ussd_server.cli.progress import progress
from ussd_server.context import operator_context
from ussd_server.security.key_ring import Keyring
from ussd_server.security.secrets_file import add_reference_key


@click.group()
def secrets() -> None:
    """Manage the keys in the file that USSD_SECRETS_FILE names.

    Its master keys can be rotated. Its reference key never changes: the names of payments at providers come from it.
    """


@secrets.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@with_json
def create(file: Path, as_json: bool) -> None:
    """Write new keys into FILE; a file of an earlier version receives the reference key that it lacks."""
    try:
        if file.exists():
            if not add_reference_key(file):
                raise click.ClickException(f"{file} exists already; `ussd-server secrets rotate` renews its keys.")
            sentence = f"Added the reference key to {file}. Copy the file to every machine, and keep a copy."
            show({"file": str(file)}, sentence, as_json=as_json)
            return
        Keyring.create(file)
    except ValueError as damage:
        raise click.ClickException(f"{file}: {damage}.") from None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}.") from None
    sentence = f"Wrote {file}. Keep a copy: without it no secret can be read, and a restored database can pay twice."
    show({"file": str(file)}, sentence, as_json=as_json)


@secrets.command()
@with_json
def rotate(as_json: bool) -> None:
    """Rotate the keys of a service on one machine: `add`, then `rekey`."""
    with open_services() as services, progress():
        services.master_keys.add(operator_context())
        count = services.master_keys.rekey(operator_context())
    _show_rekeyed(count, as_json)


@secrets.command()
@with_json
def add(as_json: bool) -> None:
    """Add a new key to every ring. On several machines, copy the file to all of them before `rekey`."""
    with open_services() as services:
        services.master_keys.add(operator_context())
    show(
        {"added": True},
        "Added. Copy the file to every machine, then run `ussd-server secrets rekey`.",
        as_json=as_json,
    )


@secrets.command()
@with_json
def rekey(as_json: bool) -> None:
    """Encrypt every secret under the newest keys, while the service runs."""
    with open_services() as services, progress():
        count = services.master_keys.rekey(operator_context())
    _show_rekeyed(count, as_json)


@secrets.command()
@with_json
def retire(as_json: bool) -> None:
    """Drop the older keys; users whose tokens they signed must sign in again."""
    with open_services() as services, progress():
        services.master_keys.retire(operator_context())
    show({"retired": True}, "Only the newest keys are left.", as_json=as_json)


def _show_rekeyed(count: int, as_json: bool) -> None:
    show({"rekeyed": count}, f"{count} secrets are under the newest keys now.", as_json=as_json)
