"""Ports for servers that tests and benchmarks start, each given to one process on this machine."""

from __future__ import annotations

import os
import random
import socket

# Below the ports of outgoing connections (from 32768): a connection could take such a port before the server listens.
_PORTS = range(10_000, 32_000)
_BLOCK = 100

_left: list[int] = []
_owner = 0


def free_port() -> int:
    """Return a free loopback port. No process that asks here gets the same one while this process lives."""
    global _owner
    if _owner != os.getpid():
        # What a parent holds is not this process's to give.
        _owner = os.getpid()
        _left.clear()
    while True:
        if not _left:
            _left.extend(_reserve_block())
        port = _left.pop()
        if _is_free(port):
            return port


def _reserve_block() -> range:
    """Reserve ports that no other process has; the name of a socket ends with the process."""
    starts = list(_PORTS[::_BLOCK])
    random.SystemRandom().shuffle(starts)
    for start in starts:
        holder = socket.socket(socket.AF_UNIX)
        try:
            holder.bind(f"\0testbed-ports-{start}")
        except OSError:
            holder.close()
            continue
        # Open until the process ends.
        holder.detach()
        return range(start, start + _BLOCK)
    raise RuntimeError("Other processes hold all ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
