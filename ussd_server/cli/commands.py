"""Shared by all commands: an example in the help, the option `--json`, and progress when it takes long."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from datetime import datetime
from functools import partial, update_wrapper
from pathlib import Path
from threading import Event, Thread
from typing import Any

import click

from ussd_server.values import iso_milliseconds, shillings
from ussd_server.wire import names_in_json

EXAMPLE_ID = "019ab3c4-0000-7000-8000-000000000000"
"""The id of an object in examples."""

_AS_JSON = "ussd_server.cli.as_json"
SECONDS_WITHOUT_PROGRESS = 2.0
_SECONDS_OF_PROGRESS = 0.5
_CLEAR = "\x1b[K"


def program() -> str:
    """Return what to type for this command here: its name where the shell finds it, else its path."""
    here = Path(sys.executable).with_name("ussd-server")
    path = shutil.which("ussd-server")
    return "ussd-server" if not here.exists() or (path and Path(path).samefile(here)) else shlex.quote(str(here))


def with_program(text: str) -> str:
    """Return a text in which the commands between backticks can be pasted as they are."""
    return text.replace("`ussd-server ", f"`{program()} ")


class Command(click.Command):
    """A command whose help ends with an example, and whose short help is its first sentence, which is never cut."""

    def __init__(self, *arguments: Any, example: str = "", has_json: bool = True, **options: Any) -> None:
        """`example` is what follows the name of the command; with `has_json` it takes `--json`, which `show` obeys."""
        super().__init__(*arguments, **options)
        self.example = example
        if has_json:
            self.params.append(_JSON_OPTION)

    def example_at(self, path: str) -> str:
        """Return the example that follows `ussd-server`, of the command with this path, such as `keys list`."""
        return f"{path} {self.example}".strip()

    def get_short_help_str(self, limit: int = 0) -> str:
        return " ".join((self.help or "").partition("\n\n")[0].split()).partition(". ")[0].removesuffix(".") + "."

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        self.epilog = f"\b\nExample:\n  {program()} {self.example_at(_path(ctx))}"
        super().format_epilog(ctx, formatter)


class Group(Command, click.Group):
    """A command with commands below it. Without an example of its own it shows that of the first of them."""

    command_class = Command

    def __init__(self, *arguments: Any, has_json: bool = False, **options: Any) -> None:
        super().__init__(*arguments, has_json=has_json, **options)

    def example_at(self, path: str) -> str:
        """Return the example of this group, or of the first command below it."""
        if self.example or self.invoke_without_command:
            return super().example_at(path)
        first = min(name for name, command in self.commands.items() if not command.hidden)
        below = self.commands[first]
        assert isinstance(below, Command)
        return below.example_at(f"{path} {first}".strip())

    def switch(self, *, disable: str, enable: str, example: str) -> Callable[[Callable[..., None]], None]:
        """Make the commands `disable` and `enable`, with these help texts, of a function that takes `is_active`."""

        def add(change: Callable[..., None]) -> None:
            for name, is_active, meaning in (("disable", False, disable), ("enable", True, enable)):
                run = update_wrapper(partial(change, is_active=is_active), change)
                self.command(name=name, help=meaning, example=example)(run)

        return add


Group.group_class = Group


def command(**options: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a command of a function, as click does."""
    return click.command(cls=Command, **options)


def group(**options: Any) -> Callable[[Callable[..., Any]], Group]:
    """Make a group of commands, as click does."""
    return click.group(cls=Group, **options)


def wants_json() -> bool:
    """Return whether the present command was given `--json`."""
    return bool(click.get_current_context().meta[_AS_JSON])


def show(result: Any, sentence: str) -> None:
    """Print `result` as JSON with `--json`, else the `sentence`. A list is an object with `items`, as in the API."""
    if wants_json() and isinstance(result, list | tuple):
        result = {"items": result}
    click.echo(json.dumps(result, indent=2, ensure_ascii=False, default=_plain) if wants_json() else sentence)


def show_lines(result: Any, lines: Iterable[str], nothing: str) -> None:
    """Print `result` as JSON with `--json`, else the `lines`, or `nothing` when there are none."""
    show(result, "\n".join(lines) or nothing)


@contextmanager
def progress(unit: str = "") -> Iterator[Callable[[int], object]]:
    """Show the seconds and the number of units on standard error, if that is a terminal, after the first two seconds.

    Gives a function that takes the number of units so far.
    """
    began, count, has_ended = time.monotonic(), 0, Event()

    def keep(number: int) -> None:
        nonlocal count
        count = number

    def draw() -> None:
        pause = SECONDS_WITHOUT_PROGRESS
        while not has_ended.wait(pause):
            units = f"{count:,} {unit}, " if count else ""
            # What is printed next begins at the beginning of this line.
            click.echo(f"{_CLEAR}{units}{time.monotonic() - began:.0f} s\r", nl=False, err=True)
            pause = _SECONDS_OF_PROGRESS
        click.echo(_CLEAR, nl=False, err=True)

    if not sys.stderr.isatty():
        yield keep
        return
    drawing = Thread(target=draw, daemon=True)
    drawing.start()
    try:
        yield keep
    finally:
        has_ended.set()
        drawing.join()


def _keep_as_json(context: click.Context, _parameter: click.Parameter, as_json: bool) -> None:
    context.meta[_AS_JSON] = as_json


_JSON_OPTION = click.Option(
    ["--json", "as_json"],
    is_flag=True,
    expose_value=False,
    callback=_keep_as_json,
    help="Print one JSON document and nothing else.",
)


def _plain(value: Any) -> Any:
    """Return a value in the API's format: amounts are shillings, without `_cents` in their names; `and_` is `and`."""
    if isinstance(value, datetime):
        return iso_milliseconds(value)
    if not is_dataclass(value) or isinstance(value, type):
        return str(value)
    plain = {}
    for name, key in names_in_json(type(value)).items():
        content = getattr(value, name)
        is_amount = name.endswith("_cents") and content is not None
        plain[key.removesuffix("_")] = shillings(content) if is_amount else content
    return plain


def _path(context: click.Context) -> str:
    """Return the name of a command with those of the groups above it, but for the program."""
    return f"{_path(context.parent)} {context.info_name}".strip() if context.parent else ""
