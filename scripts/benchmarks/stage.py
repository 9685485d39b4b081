"""Everything a measurement needs, started on loopback: servers, the service, the bare answer and the peers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import orjson

from benchmarks.cpu import cpu_seconds
from benchmarks.generator import Generator, Load, Outcome, start_generator
from benchmarks.requests import Pair
from benchmarks.switchboard import Switchboard
from benchmarks.tenants import CLIENTS, Tenants, opened_house, settle_tenants
from benchmarks.web import BARE, SERVICE, Web, environment, serve
from tests.postgres_server import PostgresServer, create_database
from tests.rpc.redis_server import Server as Redis

_USSD_NODES = 100
_LINES_SHOWN = 30
PURPOSES = ["door", "refused", "balance", "disbursement", "collection", "list", "spent"]


class Program(NamedTuple):
    """What a team would otherwise build: its application, and gunicorn's worker class for it."""

    application: str
    worker_class: str | None = None


PEERS = {
    "flask": Program("benchmarks.peers.flask_peer.app:app"),
    "fastapi": Program("benchmarks.peers.fastapi_peer.app:app", "uvicorn_worker.UvicornWorker"),
    "django": Program("benchmarks.peers.django_peer.app:application"),
}


class PeerTenants(NamedTuple):
    """Who calls a peer; only the Flask peer has more than keys."""

    keys: list[Pair]
    tokens: list[str]
    gateway_paths: list[str]


class Measured(NamedTuple):
    """One run of a load: what came of it, and microseconds of processor time a request by server."""

    outcome: Outcome
    cpu_us: dict[str, float]


@dataclass(frozen=True, slots=True)
class Stage:
    """The servers of one benchmark while they run."""

    generator: Generator
    webs: dict[str, Web]
    postgres_pid: int
    redis_pid: int
    tenants: Tenants
    switchboard: Switchboard
    peer_tenants: dict[str, PeerTenants]
    ussd_nodes: int = _USSD_NODES

    def run(self, program: str, load: Load) -> Measured:
        """Make a load on one program."""
        servers = {"web": self.webs[program].pid, "postgres": self.postgres_pid, "redis": self.redis_pid}
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
def start_stage(peers: Iterable[str] = tuple(PEERS), workers: int = 2) -> Iterator[Stage]:
    """Start and fill everything. The programs run side by side, but only the one that is measured has work."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)))
        generator = stack.enter_context(start_generator())
        postgres = PostgresServer(_new(folder, "server"), is_durable=True)
        stack.callback(postgres.stop)
        redis = Redis(_new(folder, "redis"))
        stack.callback(redis.stop)
        common = {"USSD_WORKERS": str(workers)}
        settings = common | service_settings(create_database(postgres.url), redis.url)
        home = _new(folder, "service")
        with opened_house(home, settings) as house:
            tenants = settle_tenants(house, PURPOSES)
        switchboard = Switchboard(home, settings, [_USSD_NODES])
        webs = {
            "bare": stack.enter_context(serve(BARE, _new(folder, "bare"), common)),
            "service": stack.enter_context(serve(SERVICE, home, settings)),
        }
        peer_tenants = {}
        for number, name in enumerate(peers, 1):
            program, home = PEERS[name], _new(folder, name)
            peer_settings = common | {
                "PEER_DATABASE_URL": create_database(postgres.url),
                "PEER_REDIS_URL": f"{redis.url}?db={number}",
            }
            peer_tenants[name] = _prepare(program, environment(home, peer_settings))
            webs[name] = stack.enter_context(serve(program.application, home, peer_settings, program.worker_class))
        yield Stage(
            generator,
            webs,
            postgres.process.pid,
            redis.client.info("server")["process_id"],
            tenants,
            switchboard,
            peer_tenants,
        )


def service_settings(database_url: str, redis_url: str) -> dict[str, str]:
    """The service's settings as behind a proxy in production, but for the sandbox that answers for a company."""
    return {"USSD_DATABASE_URL": database_url, "USSD_REDIS_URL": redis_url, "USSD_TRUSTED_PROXIES": "1"}


def _troubles(log: Path) -> str:
    """What a program wrote down, without its answered calls."""
    lines = [line for line in log.read_text().splitlines() if '"event": "call"' not in line]
    return "\n".join(lines[-_LINES_SHOWN:])


def _new(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made


def _prepare(program: Program, variables: dict[str, str]) -> PeerTenants:
    """Let a peer make its tables and its clients."""
    module = program.application.partition(":")[0].rpartition(".")[0] + ".prepare"
    printed = subprocess.run(
        [sys.executable, "-m", module, str(CLIENTS)], env=variables, check=True, stdout=subprocess.PIPE
    ).stdout
    made = orjson.loads(printed)
    keys = [Pair(*pair) for pair in made["keys"]]
    return PeerTenants(keys, made.get("tokens", []), made.get("gateway_paths", []))
