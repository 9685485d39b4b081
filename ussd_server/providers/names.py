"""The names of providers, by their folders."""

from __future__ import annotations

from pathlib import Path

from ussd_server import providers

# What providers over HTTP share.
_SHARED = "http"

PROVIDER_NAMES = tuple(
    sorted(
        folder.name
        for path in providers.__path__
        for folder in Path(path).glob("[a-z]*/")
        if folder.name != _SHARED and any(each.is_file() for each in folder.iterdir())
    )
)
"""Every name that a payment or a menu may give, switched on or not. Reading them imports no provider."""
