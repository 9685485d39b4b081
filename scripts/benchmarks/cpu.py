"""What servers used of the processors, which a noisy neighbour changes less than how fast they answered."""

from __future__ import annotations

from collections.abc import Mapping

import psutil


def cpu_seconds(servers: Mapping[str, int]) -> dict[str, float]:
    """The processor time that each server has used so far with all its processes, the ended ones included."""
    return {name: sum(_used(process) for process in _tree(pid)) for name, pid in servers.items()}


def _tree(pid: int) -> list[psutil.Process]:
    root = psutil.Process(pid)
    return [root, *root.children(recursive=True)]


def _used(process: psutil.Process) -> float:
    try:
        return sum(process.cpu_times()[:4])
    except psutil.NoSuchProcess:
        # It ended just now, and its parent has its time.
        return 0.0
