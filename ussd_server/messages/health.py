"""How the service is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Health:
    """The parts of the service: `database` is `up`; `redis` is `up`, or `away` while workers limit by their share."""

    database: str
    redis: str
