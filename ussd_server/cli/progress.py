"""Progress on a terminal: how far a command is that takes long."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

import click

SECONDS_WITHOUT_PROGRESS = 2.0
_SECONDS_OF_PROGRESS = 0.5
_CLEAR = "\x1b[K"


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
