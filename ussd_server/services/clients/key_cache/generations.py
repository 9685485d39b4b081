"""Generations: a random token for each client in Redis; while it stays the same, the client's keys did not change."""

from __future__ import annotations

import secrets

from ussd_server.limits.decisions import Proof
from ussd_server.redis.circuit import Circuit, RedisAwayError
from ussd_server.redis.pipeline import RedisPipeline

_PREFIX = "version"
# During a change, the key holds the markers of all processes that change the client, instead of a generation. They
# expire, because a process may die; the time is longer than any unit of work.
_MARK = "!"
_CHANGE_SECONDS = 60
_LIFE_SECONDS = 3600

_HOLD = f"""
local held = redis.call('GET', KEYS[1])
if not held or string.sub(held, 1, 1) ~= '{_MARK}' then held = '' end
redis.call('SET', KEYS[1], held .. ARGV[1], 'EX', ARGV[2])
"""
_RELEASE = f"""
local held = redis.call('GET', KEYS[1])
if held and string.sub(held, 1, 1) == '{_MARK}' then
  local others = string.gsub(held, ARGV[1], '', 1)
  if others ~= '' then return redis.call('SET', KEYS[1], others, 'KEEPTTL') end
end
redis.call('DEL', KEYS[1])
"""


class Generations:
    """The generations of clients, shared by all processes.

    A token that expired or was flushed never comes again, because tokens are random. A token that a restored or
    promoted server brings back belongs to another server run. So a proof that holds shows that no key changed since it
    was read.
    """

    def __init__(self, pipeline: RedisPipeline, circuit: Circuit) -> None:
        self._pipeline = pipeline
        self._circuit = circuit

    def read(self, client_id: str) -> Proof | None:
        """Return the generation, to be read before the rows; None during a change, and when Redis cannot prove it."""
        key = f"{_PREFIX}:{client_id}"
        try:
            return self._circuit.call(lambda: self._read(key))
        except RedisAwayError:
            return None

    def hold(self, client_id: str) -> str | None:
        """End the generation, and allow no other until `release` is called with the returned marker.

        Returns None when Redis is away: then other processes do not notice.
        """
        marker = _MARK + secrets.token_hex(8)
        return marker if self._run(_HOLD, client_id, marker, _CHANGE_SECONDS) else None

    def release(self, client_id: str, marker: str | None) -> bool:
        """Allow a new generation once no other process holds the client. Returns False when Redis is away.

        Without a marker, because `hold` could not reach Redis, this still ends the generation.
        """
        return self._run(_RELEASE, client_id, marker or "")

    def _read(self, key: str) -> Proof | None:
        server_run = self._pipeline.server_run()
        if not server_run:
            return None
        self._pipeline.execute("SET", key, secrets.token_hex(8), "NX", "EX", _LIFE_SECONDS)
        token = (self._pipeline.execute("GET", key) or b"").decode()
        return None if not token or token.startswith(_MARK) else Proof(key, token, server_run)

    def _run(self, script: str, client_id: str, *arguments: str | int) -> bool:
        try:
            self._circuit.call(lambda: self._pipeline.execute("EVAL", script, 1, f"{_PREFIX}:{client_id}", *arguments))
        except RedisAwayError:
            return False
        return True
