"""Redis pipelining, commands of simultaneous requests in one round trip, and the circuit breaker before it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TypeVar, cast

from hiredis import pack_command
from redis import Redis, RedisCluster
from redis.exceptions import ConnectionError as ConnectionLostError
from redis.exceptions import ResponseError

from ussd_server.redis.client import REDIS_ERRORS, RedisClient
from ussd_server.threads import Batches, BatchLostError

Reply = TypeVar("Reply")


class RedisAwayError(Exception):
    """Redis cannot be reached now; the caller continues without it."""


class Circuit:
    """Opens at the first failure; a background thread probes Redis and closes the circuit when a probe succeeds.

    So no caller waits for a probe of Redis (docs/DECISIONS.md, 21).
    """

    def __init__(self, probe: Callable[[], bool], on_change: Callable[[bool], None], rest_seconds: float) -> None:
        """`probe` returns whether Redis works; it is called every `rest_seconds` while the circuit is open.

        `on_change(away)` is called once per change of state and must not raise.
        """
        self._probe = probe
        self._on_change = on_change
        self._rest_seconds = rest_seconds
        self._changing = threading.Lock()
        self._closed = threading.Event()
        self._prober: threading.Thread | None = None
        self.away = False

    def call(self, work: Callable[..., Reply], *arguments: Any) -> Reply:
        """Return what `work` returns. Raises RedisAwayError if Redis fails, and at once while the circuit is open."""
        if self.away:
            self._start_prober()
            raise RedisAwayError
        try:
            return work(*arguments)
        except REDIS_ERRORS as error:
            self._open()
            raise RedisAwayError from error

    def close(self) -> None:
        """Stop probing for good, and wait for a probe under way: it could connect after the client was closed."""
        with self._changing:
            self._closed.set()
            prober = self._prober
        if prober is not None:
            prober.join()

    def _open(self) -> None:
        with self._changing:
            if self.away:
                return
            self.away = True
        self._on_change(True)
        self._start_prober()

    def _start_prober(self) -> None:
        # A thread does not survive a fork, so a process that was forked while Redis was away starts its own.
        if self._prober is not None and self._prober.is_alive():
            return
        with self._changing:
            if self.away and not self._closed.is_set() and (self._prober is None or not self._prober.is_alive()):
                self._prober = threading.Thread(target=self._probe_until_back, name="redis-probe", daemon=True)
                self._prober.start()

    def _probe_until_back(self) -> None:
        while not self._closed.wait(self._rest_seconds):
            if self._probe():
                self.away = False
                self._on_change(False)
                return


# The id of the server process, and that of its data's history: every promotion to master begins a new one.
_IDENTITIES = (
    ("server", re.compile(rb"^run_id:(\w+)", re.MULTILINE)),
    ("replication", re.compile(rb"^master_replid:(\w+)", re.MULTILINE)),
)


def _packed(words: tuple[str | int, ...]) -> bytes:
    """A command as it is sent. The calls of a key send the same words to a script again and again."""
    return _packed_again(words) if words[0] == "EVALSHA" else _packed_anew(words)


def _packed_anew(words: tuple[str | int, ...]) -> bytes:
    # redis-py's own packer takes as long as the server.
    packed: bytes = pack_command(words)  # type: ignore[arg-type]
    return packed


_packed_again = lru_cache(maxsize=5000)(_packed_anew)


class _Command:
    """One command and its reply. Without `words` it asks for the server run."""

    __slots__ = ("is_answered", "reply", "within_run", "words")

    def __init__(self, words: tuple[str | int, ...], within_run: str | None) -> None:
        self.words = words
        self.within_run = within_run
        self.reply: Any = None
        self.is_answered = False


class RedisPipeline:
    """One connection that all requests of the process share.

    Taking a connection from redis-py's pool for every command takes three times as long.
    """

    def __init__(self, client: Callable[[], RedisClient]) -> None:
        """`client` returns the client of the server; commands for a cluster are sent by the client itself."""
        self._client = client
        self._connection: Any = None
        self._server_run = ""
        self._batches = Batches(self._run_all, was_undone=lambda _: False)

    def execute(self, *words: str | int, within_run: str | None = None) -> Any:
        """Send one command and return its reply.

        With `within_run`, a command for another server run is not sent; the reply is None.
        Raises one of `REDIS_ERRORS`.
        """
        client = self._client()
        if type(client) is RedisCluster:  # isinstance takes longer: the class is a protocol
            return None if within_run else client.execute_command(*words)  # type: ignore[no-untyped-call]
        reply = self._run(_Command(words, within_run))
        try:
            if isinstance(reply, Exception):
                raise reply
            return reply
        finally:
            # The frames of the exception, and all that they hold, would live until the garbage collector runs.
            del reply

    def server_run(self) -> str:
        """Return the id of this run of the server and of its time as master; empty when the server does not say.

        Another run may hold older data, because the server was restored or promoted. Raises one of `REDIS_ERRORS`.
        """
        if type(self._client()) is RedisCluster:
            return ""
        return cast(str, self._run(_Command((), None)))

    def close(self) -> None:
        """Close the connection, if there is one. No command may be under way; a later one connects again."""
        if self._connection is not None:
            self._connection.disconnect()

    def _run(self, command: _Command) -> Any:
        try:
            self._batches.do(command)
        except BatchLostError:
            raise ConnectionLostError("Redis failed while the command was under way") from None
        return command.reply

    def _run_all(self, commands: Sequence[_Command]) -> None:
        client: Any = self._client()
        try:
            while commands:
                self._ask(commands, is_fresh=self._connect(client))
                commands = [each for each in commands if not each.is_answered]
        except BaseException:
            # Replies that were not read must not reach later commands.
            if self._connection is not None:
                self._connection.disconnect()
            raise

    def _ask(self, commands: Sequence[_Command], *, is_fresh: bool) -> None:
        """Make one round trip. Some commands stay unanswered when the connection had been closed."""
        sent = [each for each in commands if each.words and each.within_run in (None, self._server_run)]
        try:
            if sent:
                packed = b"".join([_packed(each.words) for each in sent])
                self._connection.send_packed_command([packed], check_health=False)
            for each in sent:
                each.reply, each.is_answered = self._read_reply(), True
        except ConnectionLostError:
            # The server closes idle connections, so an old one is replaced. A time-out, another error, is not retried.
            if is_fresh:
                raise
            return
        is_current = True
        for each in commands:
            if not each.is_answered:
                # It asks for the server run, or was meant for another one.
                each.reply, each.is_answered = None if each.words else self._server_run, True
                is_current = is_current and not each.words
        if not (is_current or is_fresh):
            # A promotion changes the run without closing connections: read it again.
            self._connection.disconnect()

    def _read_reply(self) -> Any:
        try:
            return self._connection.read_response()
        except ResponseError as refusal:
            return refusal

    def _connect(self, client: Redis) -> bool:
        """Connect if necessary; return whether the connection is new."""
        pool = client.connection_pool
        if self._connection is None:
            self._connection = pool.make_connection()
        if self._connection.is_connected:
            # Another connection may have learned of a new master.
            sentinels = getattr(pool, "proxy", None)
            if sentinels is None or sentinels.master_address == (self._connection.host, self._connection.port):
                return False
            self._connection.disconnect()
        self._connection.connect()
        self._server_run = self._read_server_run()
        return True

    def _read_server_run(self) -> str:
        identities = []
        for section, identity in _IDENTITIES:
            self._connection.send_command("INFO", section, check_health=False)
            try:
                info = self._connection.read_response()
            except ResponseError:
                return ""
            identities += identity.findall(info if isinstance(info, bytes) else info.encode())
        return b"/".join(identities).decode() if len(identities) == len(_IDENTITIES) else ""
