"""Versions: by which a process knows that what it remembers of the database is still so."""

from __future__ import annotations

import secrets
from typing import NamedTuple

from ussd_server.redis.circuit import Circuit, RedisAwayError
from ussd_server.redis.pipeline import RedisPipeline

_PREFIX = "version"
# A subject that is being changed has the markers of all processes that change it instead of a version. The time is
# longer than any unit of work takes, and short, because a process that dies leaves its marker behind.
_MARK = "!"
_CHANGE_SECONDS = 60
_LIFE_SECONDS = 3600

_HOLD = f"""
local held = redis.call('GET', KEYS[1])
if not held or string.sub(held, 1, 1) ~= '{_MARK}' then held = '' end
redis.call('SET', KEYS[1], held .. ARGV[1], 'EX', ARGV[2])
"""
_FREE = f"""
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, 1) == '{_MARK}' then
  local others = string.gsub(held, ARGV[1], '', 1)
  if others ~= '' then return redis.call('SET', KEYS[1], others, 'KEEPTTL') end
end
redis.call('DEL', KEYS[1])
"""


class Generation(NamedTuple):
    """The state of one subject: a random token under a key of Redis, as one run of the server has it.

    A token that vanished or was emptied out is never made again, and one that a restored or promoted server brings back
    belongs to another run, or another reign as a master. So a version that is still there proves that nothing changed
    since it was read.
    """

    key: str
    token: str
    server_run: str


class Generations:
    """Versions of subjects, such as a client and its keys. Whoever changes one holds it before and frees it after."""

    def __init__(self, pipeline: RedisPipeline, circuit: Circuit) -> None:
        """`line` leads to the Redis that everybody shares, and `circuit` tells when it is away."""
        self._pipeline = pipeline
        self._circuit = circuit

    def read(self, subject: str) -> Generation | None:
        """The present version, to be read before what it stands for; None while it is changed, or cannot be told."""
        key = f"{_PREFIX}:{subject}"
        try:
            return self._circuit.call(lambda: self._read(key))
        except RedisAwayError:
            return None

    def hold(self, subject: str) -> str | None:
        """End the present version, and let there be none until `free` is called with the marker that this returns.

        None when Redis is away: then other processes do not notice.
        """
        marker = _MARK + secrets.token_hex(8)
        return marker if self._tell(_HOLD, subject, marker, _CHANGE_SECONDS) else None

    def free(self, subject: str, marker: str | None) -> bool:
        """Let there be a new version once no other process holds the subject; tells whether other processes notice.

        Without a `marker`, because `hold` could not reach Redis, this still ends the present version.
        """
        return self._tell(_FREE, subject, marker or "")

    def _read(self, key: str) -> Generation | None:
        server_run = self._pipeline.server_run()
        if not server_run:
            return None
        self._pipeline.execute("SET", key, secrets.token_hex(8), "NX", "EX", _LIFE_SECONDS)
        token = (self._pipeline.execute("GET", key) or b"").decode()
        return None if not token or token.startswith(_MARK) else Generation(key, token, server_run)

    def _tell(self, script: str, subject: str, *arguments: str | int) -> bool:
        try:
            self._circuit.call(lambda: self._pipeline.execute("EVAL", script, 1, f"{_PREFIX}:{subject}", *arguments))
        except RedisAwayError:
            return False
        return True
