"""`completion`: what a shell needs to complete commands."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from ussd_server.cli import COMPLETE_VARIABLE
from ussd_server.cli.commands import command

_PROGRAM = "ussd-server"


@command(has_json=False, example="bash > ~/.local/share/bash-completion/completions/ussd-server")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes commands and options."""
    made_for = get_completion_class(shell)
    assert made_for is not None
    click.echo(made_for(context.find_root().command, {}, _PROGRAM, COMPLETE_VARIABLE).source())
