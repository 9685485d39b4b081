"""A plugin of pytest that puts the provider of this folder beside the others, before anything reads their names."""

from __future__ import annotations

from pathlib import Path

import ussd_server.providers

ussd_server.providers.__path__.append(str(Path(__file__).parent / "providers"))
