"""How the service is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Health:
    """The parts of the service: `database` is `up`; `redis` is `up`, or `away` while workers limit by their share."""

    database: str
    redis: str


@dataclass(frozen=True, slots=True)
class Measure:
    """One number that those who watch the service read: its name, what it means, its labels and its value.

    A name that ends in `_total` only ever grows; any other goes up and down. Names carry their unit.
    """

    name: str
    meaning: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
