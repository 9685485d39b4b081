"""Runtimes that differ from the one of a test's services in what a test replaces."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from ussd_server.bootstrap import Services
from ussd_server.services.runtime import Runtime

_PARTS = {field.name for field in fields(Runtime)}


def other_runtime(services: Services, **changes: Any) -> Runtime:
    """The runtime of `services` with other parts, such as `providers`, or other settings, such as `threads`."""
    parts = {name: changes.pop(name) for name in tuple(changes) if name in _PARTS}
    return replace(services.runtime, settings=replace(services.settings, **changes), **parts)
