"""Health and measures of the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Health:
    """State of the parts: `database` is `up`; `redis` is `up`, or `away` while processes limit by their share."""

    database: str
    redis: str


@dataclass(frozen=True, slots=True)
class Measure:
    """One number for monitoring: name, meaning, labels and value.

    A name that ends in `_total` is a counter; any other is a gauge. Names end with their unit.
    """

    name: str
    meaning: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)
