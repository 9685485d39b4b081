"""`secrets`: the master keys and the reference key."""

from __future__ import annotations

from pathlib import Path

import click

from ussd_server.cli import services
from ussd_server.cli.commands import group, progress, show
from ussd_server.cli.names import two_people
from ussd_server.context import operator_context
from ussd_server.security.key_ring import Keyring


@group()
def secrets() -> None:
    """Manage the keys in the file that USSD_SECRETS_FILE names.

    Its master keys can be rotated. Its reference key never changes: the names of payments at providers come from it.
    """


@secrets.command(example="/etc/ussd-server/secrets.json")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def create(file: Path) -> None:
    """Write new keys into FILE, which must not exist."""
    try:
        if file.exists():
            raise click.ClickException(f"{file} exists already; `ussd-server secrets rotate` renews its keys.")
        Keyring.create(file)
    except ValueError as damage:
        raise click.ClickException(f"{file}: {damage}.") from None
    except OSError as error:
        raise click.ClickException(f"{file} cannot be written: {error.strerror}.") from None
    sentence = f"Wrote {file}. Keep a copy: without it no secret can be read, and a restored database can pay twice."
    show({"file": str(file)}, sentence)


@secrets.command()
def rotate() -> None:
    """Rotate the keys of a service on one machine: `add`, then `rekey`."""
    with progress():
        services().master_keys.add(operator_context())
        count = services().master_keys.rekey(operator_context())
    _show_rekeyed(count)


@secrets.command()
def add() -> None:
    """Add a new key to every ring. On several machines, copy the file to all of them before `rekey`."""
    services().master_keys.add(operator_context())
    show({"added": True}, "Added. Copy the file to every machine, then run `ussd-server secrets rekey`.")


@secrets.command()
def rekey() -> None:
    """Encrypt every secret under the newest keys, while the service runs."""
    with progress():
        count = services().master_keys.rekey(operator_context())
    _show_rekeyed(count)


@secrets.command()
def retire() -> None:
    """Drop the older keys; users whose tokens they signed must sign in again."""
    with progress():
        services().master_keys.retire(operator_context())
    show({"retired": True}, "Only the newest keys are left.")


@secrets.command(example="--reason 'Restored and compared' --by Ann --and Ben")
@click.option("--reason", required=True, help="Why, in 1 to 200 characters.")
@two_people()
def sign(reason: str, by: str, second: str) -> None:
    """Sign again every row that only the service may change: keys, bank accounts, payment codes, decisions.

    When something else has changed such rows, `check` names them. Compare each with what it should be first.
    """
    with progress():
        count = services().signatures.sign_again(by, second, reason, operator_context())
    show({"signed": count}, f"Rows that are signed now: {count}.")


def _show_rekeyed(count: int) -> None:
    show({"rekeyed": count}, f"Secrets under the newest keys now: {count}.")
