"""Writes docs/reference/COMMANDS.md: every command with its options and an example, from what `--help` shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from ussd_server.cli import main
from ussd_server.cli.commands import Command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "COMMANDS.md"
_HEAD = """# Commands

`ussd-server` is the operator's command. In a checkout it is `.venv/bin/ussd-server`; on an installed server it is
`ussd`, which has the settings of the service. Every command has `--help`, and `--json` prints one JSON document: a list
is `{"items": [...]}`, an amount is in shillings as in the API, and a refusal is `{"error": ..., "exit_status": ...}` on
standard error. Amounts are typed as 5000, 5000.50 or 5,000.

A command finds the data folder by `USSD_DATA_DIR`; without it, in `var` of this folder, of a folder above, or of the
checkout. Commands, options and names are taken in any case. Exit status 0 means done, 1 refused, 2 mistyped.
"""


def commands(command: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Command]]:
    """Every command that does something, with its path."""
    assert isinstance(command, Command)
    if not isinstance(command, click.Group) or command.invoke_without_command:
        yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and (not below.hidden or name == "statement"):
                yield from commands(below, (*path, name))


def written_page() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(_section(path, command) for path, command in commands())])


def name_of(path: tuple[str, ...]) -> str:
    """Return what to type for a command."""
    return " ".join(path).replace("reconcile statement", "reconcile")


def _section(path: tuple[str, ...], command: Command) -> str:
    name = name_of(path)
    arguments = [
        f" {each.make_metavar(click.Context(command))}" for each in command.params if isinstance(each, click.Argument)
    ]
    text = "\n\n".join(filter(None, map(_paragraph, (command.help or "").split("\n\n"))))
    options = "".join(
        f"| `{', '.join(each.opts)}` | {'yes' if each.required else ''} | {each.help or ''} |\n"
        for each in command.params
        if isinstance(each, click.Option) and each.name != "as_json"
    )
    table = f"\n| option | needed | means |\n| --- | --- | --- |\n{options}" if options else ""
    return f"## `{name}{''.join(arguments)}`\n\n{text}\n\n    ussd-server {command.example_at(name)}\n{table}"


def _paragraph(text: str) -> str:
    """A paragraph of a help text; what follows a mark against wrapping is a list of names with their meanings."""
    sentences, _, kept = text.partition("\b\n")
    items = [line.strip().partition("  ") for line in kept.splitlines()]
    listed = "\n".join(f"- `{name}`: {meaning.strip()}" for name, _, meaning in items if meaning)
    return "\n\n".join(filter(None, (" ".join(sentences.split()), listed)))


def write_commands() -> None:
    """Write the page."""
    PAGE.write_text(written_page(), encoding="utf-8")
