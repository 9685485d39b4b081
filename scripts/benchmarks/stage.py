"""The service, the bare answer and the peers, filled with clients and serving."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import orjson

from benchmarks.house import opened_house
from benchmarks.requests import Pair
from benchmarks.servers import Servers, start_servers
from benchmarks.switchboard import USUAL_NODES, Switchboard
from benchmarks.tenants import CLIENTS, Tenants, settle_tenants
from benchmarks.web import BARE, SERVICE, environment

USUAL_WORKERS = 2
_PURPOSES = ["door", "refused", "balance", "disbursement", "collection", "list", "spent"]


class Program(NamedTuple):
    """What a team would otherwise build: its package, its application, and gunicorn's worker class for it."""

    package: str
    application: str
    worker_class: str | None = None
    settings: Mapping[str, str] = {}


_HOME = "benchmarks.peers"
# What waits for databases needs gunicorn's own threads.
_THREADS = "gthread"
PEERS = {
    "flask": Program(f"{_HOME}.flask_peer", "app:app", _THREADS),
    "flask minute": Program(f"{_HOME}.flask_peer", "app:app", _THREADS, {"PEER_NOTE_SECONDS": "60"}),
    "fastapi": Program(f"{_HOME}.fastapi_peer", "app:app", "uvicorn_worker.UvicornWorker"),
    "django": Program(f"{_HOME}.django_peer", "app:application", _THREADS),
}


class PeerTenants(NamedTuple):
    """Who calls a peer; only the Flask peer has more than keys."""

    keys: list[Pair]
    tokens: list[str]
    gateway_paths: list[str]


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything that can be measured, and who calls it."""

    servers: Servers
    tenants: Tenants
    switchboard: Switchboard
    peer_tenants: dict[str, PeerTenants]

    def port(self, program: str) -> int:
        """Where a program listens."""
        return self.servers.webs[program].port


def program_name(kind: str, workers: int) -> str:
    """The name of the bare answer or the service with so many web processes."""
    return kind if workers == USUAL_WORKERS else f"{kind} x{workers}"


@contextmanager
def start_stage(
    peers: Iterable[str], worker_counts: Iterable[int] = (USUAL_WORKERS,), clients: int = CLIENTS
) -> Iterator[Stage]:
    """Start and fill everything; the bare answer and the service once for each number of web processes."""
    with start_servers() as servers:
        home = servers.new_folder("home")
        settings = service_settings(servers.new_database(), servers.redis_url(0))
        with opened_house(home, settings) as house:
            tenants = settle_tenants(house, _PURPOSES, clients)
        switchboard = Switchboard(home, settings, [USUAL_NODES])
        shared = settings | {"USSD_SECRETS_FILE": str(tenants.secrets_file)}
        for workers in worker_counts:
            counted = {"USSD_WORKERS": str(workers)}
            for kind, application, those in (("bare", BARE, counted), ("service", SERVICE, shared | counted)):
                name = program_name(kind, workers)
                servers.start(name, application, servers.new_folder(name), those)
        found = {name: _start_peer(servers, name, number, clients) for number, name in enumerate(peers, 1)}
        yield Stage(servers, tenants, switchboard, found)


def service_settings(database_url: str, redis_url: str) -> dict[str, str]:
    """The service's settings as behind a proxy in production, but for the sandbox that answers for a company."""
    return {"USSD_DATABASE_URL": database_url, "USSD_REDIS_URL": redis_url, "USSD_TRUSTED_PROXIES": "1"}


def _start_peer(servers: Servers, name: str, number: int, clients: int) -> PeerTenants:
    program, home = PEERS[name], servers.new_folder(name)
    settings = {
        "USSD_WORKERS": str(USUAL_WORKERS),
        "PEER_DATABASE_URL": servers.new_database(),
        "PEER_REDIS_URL": servers.redis_url(number),
        **program.settings,
    }
    made = _prepare(program, home, settings, clients)
    servers.start(name, f"{program.package}.{program.application}", home, settings, program.worker_class)
    keys = [Pair(*pair) for pair in made["keys"]]
    return PeerTenants(keys, made.get("tokens", []), made.get("gateway_paths", []))


def _prepare(program: Program, home: Path, settings: Mapping[str, str], clients: int) -> dict[str, list[str]]:
    """Let a peer make its tables and its clients; gives what it printed of them."""
    printed = subprocess.run(
        [sys.executable, "-m", f"{program.package}.prepare", str(clients)],
        env=environment(home, settings), check=True, stdout=subprocess.PIPE,
    ).stdout  # fmt: skip
    made: dict[str, list[str]] = orjson.loads(printed)
    return made
