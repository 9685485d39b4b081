"""What journeys need of the machine they run on."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.journeys.deployment import NGINX_FOLDERS


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs nginx on a machine without it; the pipeline has it, and insists."""
    if shutil.which("nginx", path=NGINX_FOLDERS) or os.environ.get("CI") == "true":
        return
    without = [item for item in items if item.get_closest_marker("needs_nginx")]
    config.hook.pytest_deselected(items=without)
    items[:] = [item for item in items if item not in without]
