"""The names of providers, by their folders."""

from __future__ import annotations

from pkgutil import iter_modules

from ussd_server import providers

# What providers over HTTP share.
_SHARED = "http"

PROVIDER_NAMES = tuple(
    sorted(each.name for each in iter_modules(providers.__path__) if each.ispkg and each.name != _SHARED)
)
"""Every name that a payment or a menu may give, switched on or not. Reading them imports no provider."""
