"""The JavaScript library: `javascript_library.test.mjs`, run by Node.js."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

_PROGRAM = Path(__file__).with_name("javascript_library.test.mjs")


@pytest.mark.needs_node
def test_the_javascript_library_does_what_the_python_library_does() -> None:
    ran = subprocess.run(["node", "--test", _PROGRAM], capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 0, ran.stdout
    assert "# fail 0" in ran.stdout
    assert int(ran.stdout.partition("# pass ")[2].split()[0]) >= 12
