"""Versions: by which a process knows that what it remembers of the database is still so."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from ussd_server.rpc.redis_link import Circuit, Line, RedisAwayError

_PREFIX = "version"
# What is being changed has no version. Longer than any unit of work takes, and short, because whoever dies between
# leaves it behind.
_BEING_CHANGED = ""
_CHANGE_SECONDS = 60
_LIFE_SECONDS = 3600


class Version(NamedTuple):
    """The state of one subject: a random token under a key of Redis, as one run of the server has it.

    A token that vanished or was emptied out is never made again, and one that a restored or promoted server brings back
    belongs to another run, or another reign as a master. So a version that is still there proves that nothing changed
    since it was read.
    """

    key: str
    token: str
    server_run: str


class Versions:
    """Versions of subjects, such as a client and its keys. Whoever changes one holds it before and frees it after."""

    def __init__(self, line: Line, circuit: Circuit) -> None:
        """`line` leads to the Redis that everybody shares, and `circuit` tells when it is away."""
        self._line = line
        self._circuit = circuit

    def read(self, subject: str) -> Version | None:
        """The present version, to be read before what it stands for; None while it is changed, or cannot be told."""
        key = f"{_PREFIX}:{subject}"
        try:
            return self._circuit.call(lambda: self._read(key))
        except RedisAwayError:
            return None

    def hold(self, subject: str) -> bool:
        """End the present version, and let there be none until `free`; tells whether everybody will notice."""
        return self._tell("SET", f"{_PREFIX}:{subject}", _BEING_CHANGED, "EX", _CHANGE_SECONDS)

    def free(self, subject: str) -> bool:
        """Let there be a new version from now on; tells whether everybody will notice."""
        return self._tell("DEL", f"{_PREFIX}:{subject}")

    def _read(self, key: str) -> Version | None:
        server_run = self._line.server_run()
        if not server_run:
            return None
        self._line.ask("SET", key, secrets.token_hex(8), "NX", "EX", _LIFE_SECONDS)
        token = (self._line.ask("GET", key) or b"").decode()
        return Version(key, token, server_run) if token != _BEING_CHANGED else None

    def _tell(self, *command: str | int) -> bool:
        try:
            self._circuit.call(lambda: self._line.ask(*command))
        except RedisAwayError:
            return False
        return True
