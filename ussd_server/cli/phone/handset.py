"""A feature phone drawn in the terminal."""

from __future__ import annotations

from rich.align import Align
from rich.box import HEAVY
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

_SCREEN_COLUMNS = 30


def draw(screen: str, caption: str, *, budget: int, used: int, unit: str = "septets") -> RenderableType:
    """Draw a phone that shows `screen`, with `caption` and the used part of the budget, in `unit`, below it."""
    display = Panel(Text(screen), width=_SCREEN_COLUMNS, box=HEAVY, style="black on green")
    colour = "red" if used > budget else "dim"
    measure = Text(f"{used} of {budget} {unit}", style=colour, justify="center")
    keys = Text("1 2 3\n4 5 6\n7 8 9\n* 0 #", style="bold", justify="center")
    body = Group(display, Align.center(measure), Align.center(Text(caption, style="dim")), Align.center(keys))
    return Panel(body, width=_SCREEN_COLUMNS + 4)
