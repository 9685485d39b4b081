"""What every benchmark of calls starts on loopback: PostgreSQL, Redis, the load, and the programs to be measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from benchmarks.cpu import cpu_seconds
from benchmarks.generator import Generator, Load, Outcome, start_generator
from benchmarks.web import Web, serve
from tests.postgres_server import PostgresServer, create_database
from tests.rpc.redis_server import Server as Redis

_LINES_SHOWN = 30


class Measured(NamedTuple):
    """One run of a load: what came of it, and microseconds of processor time a request by server."""

    outcome: Outcome
    cpu_us: dict[str, float]


@dataclass(frozen=True, slots=True)
class Servers:
    """PostgreSQL with fsync over TCP, Redis on a unix socket, the load generator, and the programs that were started.

    Programs run side by side, but only the one that is measured has work.
    """

    folder: Path
    generator: Generator
    _postgres: PostgresServer
    _redis: Redis
    _stack: ExitStack
    webs: dict[str, Web] = field(default_factory=dict)

    def new_folder(self, name: str) -> Path:
        """A folder that goes when the servers end."""
        made = self.folder / name
        made.mkdir()
        return made

    def new_database(self) -> str:
        """An empty database; gives its address."""
        return create_database(self._postgres.url)

    def redis_url(self, number: int) -> str:
        """The address of one of Redis' databases, 0 to 15."""
        return f"{self._redis.url}?db={number}"

    def start(
        self, name: str, application: str, home: Path, settings: Mapping[str, str], worker_class: str | None = None
    ) -> None:
        """Start a program, to be known by a name until the servers end."""
        self.webs[name] = self._stack.enter_context(serve(application, home, settings, worker_class))

    def run(self, program: str, load: Load) -> Measured:
        """Make a load on one program. Raises RuntimeError, with the program's last words, when it answers wrongly."""
        redis_pid = self._redis.client.info("server")["process_id"]
        servers = {"web": self.webs[program].pid, "postgres": self._postgres.process.pid, "redis": redis_pid}
        before = cpu_seconds(servers)
        try:
            outcome = self.generator.run(load)
        except RuntimeError as error:
            error.add_note(_troubles(self.webs[program].log))
            raise
        after = cpu_seconds(servers)
        used = {name: 1e6 * (after[name] - before[name]) / outcome.answers_in_all for name in servers}
        return Measured(outcome, used | {"generator": 1e6 * outcome.generator_cpu_seconds / outcome.answers_in_all})


@contextmanager
def start_servers() -> Iterator[Servers]:
    """Start them; everything that they keep goes with them."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)))
        homes = {name: folder / name for name in ("postgres", "redis")}
        for home in homes.values():
            home.mkdir()
        generator = stack.enter_context(start_generator())
        postgres = PostgresServer(homes["postgres"], is_durable=True)
        stack.callback(postgres.stop)
        redis = Redis(homes["redis"])
        stack.callback(redis.stop)
        yield Servers(folder, generator, postgres, redis, stack)


def _troubles(log: Path) -> str:
    """What a program wrote down, without its answered calls."""
    lines = [line for line in log.read_text().splitlines() if '"event":"call"' not in line]
    return "\n".join(lines[-_LINES_SHOWN:])
