"""Three database nodes behind HAProxy, from the files in deploy/cluster: no failover loses or doubles a payment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.faults.failovers import fail_over, operating

pytestmark = [pytest.mark.needs_nginx, pytest.mark.needs_patroni, pytest.mark.timeout(900)]


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.nightly)], ids=["by day", "whole"])
def test_no_failover_loses_or_doubles_a_payment(tmp_path: Path, whole: bool) -> None:
    with operating(tmp_path) as operated:
        print(*fail_over(operated, tmp_path, whole=whole), sep="\n")
