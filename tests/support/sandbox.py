"""The settings of a sandbox with one web process."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

from ussd_server.settings import Settings, read_settings


def sandbox_settings(folder: Path, database_url: str, redis_url: str, **more: str) -> Settings:
    """Return the settings that a service reads which has these, `more` and else the defaults."""
    given = {
        "USSD_DATA_DIR": str(folder),
        "USSD_DATABASE_URL": database_url,
        "USSD_REDIS_URL": redis_url,
        "USSD_WORKERS": "1",
        "USSD_WORKER_THREADS": "4",
        "USSD_ALLOW_PRIVATE_ADDRESSES": "1",
        **more,
    }
    with patch.dict(os.environ, given):
        return read_settings()
