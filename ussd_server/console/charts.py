"""Charts as SVG, made on the server."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

from markupsafe import Markup

Point = tuple[str, float | None]
"""A label and a value from 0 up; None leaves a gap."""

_HEIGHT, _LEFT, _BOTTOM, _TOP = 200, 56, 36, 10
_WIDTH = 720

_BAR = Markup(
    '<rect class="bar" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}" rx="2"><title>{}: {}</title></rect>'
)
_DOT = Markup('<circle class="dot" cx="{:.1f}" cy="{:.1f}" r="{:.1f}"><title>{}: {}</title></circle>')
_GRID_LINE = Markup(
    '<line class="grid" x1="{}" x2="{}" y1="{y:.1f}" y2="{y:.1f}"/><text class="scale" x="{}" y="{:.1f}">{}</text>'
)


def bars(points: Sequence[Point], title: str, width: int = _WIDTH) -> Markup:
    """A bar chart. `title` says what it shows; a smaller `width` enlarges the texts."""
    if not points:
        return Markup("")
    top = _round_up(max(value or 0 for _, value in points))
    step = (width - _LEFT) / len(points)
    shapes = Markup("").join(
        _BAR.format(
            _LEFT + index * step + step * 0.15,
            _y(value, top),
            step * 0.7,
            _HEIGHT - _BOTTOM - _y(value, top),
            label,
            _written(value),
        )
        for index, (label, value) in enumerate(points)
        if value
    )
    return _frame(points, top, title, shapes, width)


def lines(points: Sequence[Point], title: str, width: int = _WIDTH, top: float | None = None) -> Markup:
    """A line chart, with a dot and its value at each point. `top` is the upper end of the scale."""
    if not points:
        return Markup("")
    top = top or _round_up(max(value or 0 for _, value in points))
    step = (width - _LEFT) / len(points)
    paths, dots = [""], Markup("")
    for index, (label, value) in enumerate(points):
        if value is None:
            paths.append("")
            continue
        x, y = _LEFT + (index + 0.5) * step, _y(value, top)
        paths[-1] += f"{x:.1f},{y:.1f} "
        dots += _DOT.format(x, y, min(3.0, step / 2 + 0.5), label, _written(value))
    drawn = Markup("").join(Markup('<polyline class="line" points="{}"/>').format(path) for path in paths if path)
    return _frame(points, top, title, drawn + dots, width)


def _frame(points: Sequence[Point], top: float, title: str, shapes: Markup, width: int) -> Markup:
    step = (width - _LEFT) / len(points)
    every = -(-len(points) // (12 if width == _WIDTH else 8))
    grid = Markup("").join(
        _GRID_LINE.format(_LEFT, width, _LEFT - 8, _y(part * top, top) + 4, _short(part * top), y=_y(part * top, top))
        for part in (0, 0.5, 1)
    )
    labels = Markup("").join(
        Markup('<text class="label" x="{:.1f}" y="{}">{}</text>').format(
            _LEFT + (index + 0.5) * step, _HEIGHT - 4, label
        )
        for index, (label, _) in enumerate(points)
        if index % every == 0
    )
    return Markup('<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}{}{}</svg>').format(
        width, _HEIGHT, title, grid, shapes, labels
    )


def _written(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


def _short(value: float) -> str:
    """A value of the scale: `500`, `20k` or `1.5M`."""
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if value >= unit:
            return f"{value / unit:g}{name}"
    return f"{value:g}"


def _y(value: float, top: float) -> float:
    return _TOP + (_HEIGHT - _BOTTOM - _TOP) * (1 - value / top)


def _round_up(value: float) -> float:
    """The next of 2, 4, 6 and 10 times a power of ten, whose half is whole from 2 on; 2 for nothing."""
    power = 10.0 ** floor(log10(value)) if value else 1.0
    return next(factor * power for factor in (2, 4, 6, 10) if factor * power >= value)
