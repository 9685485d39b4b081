"""A feature phone drawn in the terminal."""

from __future__ import annotations

from rich.align import Align
from rich.box import HEAVY
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

_GLASS_COLUMNS = 30


def draw(screen: str, caption: str, *, budget: int, used: int, unit: str = "septets") -> RenderableType:
    """A phone that shows `screen`; below the glass stand `caption` and how much of the budget the screen takes."""
    glass = Panel(Text(screen), width=_GLASS_COLUMNS, box=HEAVY, style="black on green")
    colour = "red" if used > budget else "dim"
    measure = Text(f"{used} of {budget} {unit}", style=colour, justify="center")
    keys = Text("1 2 3\n4 5 6\n7 8 9\n* 0 #", style="bold", justify="center")
    body = Group(glass, Align.center(measure), Align.center(Text(caption, style="dim")), Align.center(keys))
    return Panel(body, width=_GLASS_COLUMNS + 4)
