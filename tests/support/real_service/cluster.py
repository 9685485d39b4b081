"""A cluster made from the files in `deploy/cluster/`: three nodes, and HAProxy. Each node is a machine of its own.

Where this process may make no network namespaces, the nodes have loopback addresses, and none can be cut off. Of those
files only paths, addresses and passwords are replaced.
"""

from __future__ import annotations

import http.client
import os
import re
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
from redis import Redis, RedisError

from tests.outbound.certificates import Authority
from tests.support.eventually import eventually
from tests.support.real_service.machines import Machines, machines_can_be_made
from tests.support.real_service.service import descendants

_FILES = Path(__file__).parents[3] / "deploy" / "cluster"
NODES = ("db1", "db2", "db3")
# Patroni and PostgreSQL do not run as root.
_USER = "postgres"


class Cluster:
    """Three nodes, each with etcd, Patroni, PostgreSQL, Redis and a Sentinel, and one HAProxy."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.machines = Machines(NODES) if machines_can_be_made() else None
        # The whole of 127.0.0.0/8 is this computer. Another run has other addresses.
        loopback = f"127.{100 + secrets.randbelow(100)}.{1 + secrets.randbelow(250)}"
        self._network = self.machines.network if self.machines else loopback
        self._passwords = {name: secrets.token_hex(12) for name in re.findall(r"CHANGE-\w+", _all_files())}
        self._running: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
        self._as = ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"] if os.getuid() == 0 else []
        authority = Authority()
        for node in NODES:
            home = folder / node
            home.mkdir()
            authority.certify(home / "node.key", "db.example.com")
            shutil.copy(home / "node.key", home / "node.crt")
        settings = dict(re.findall(r"^(\w+)=(.*)$", self._written("settings.env"), re.MULTILINE))
        self.database_url, self.redis_url = settings["USSD_DATABASE_URL"], settings["USSD_REDIS_URL"]
        self.replica_url = settings["USSD_REPLICA_URL"]

    def start(self) -> None:
        """Start everything and make the service's database."""
        (self._folder / "backups").mkdir()
        for node in NODES:
            self._prepare(node)
        (self._folder / "haproxy.cfg").write_text(self._written("haproxy.cfg"))
        if self._as:
            subprocess.run(["chown", "-R", f"{_USER}:{_USER}", str(self._folder)], check=True)
        for node in NODES:
            self.start_node(node)
        self._run("haproxy", "", ["haproxy", "-W", "-db", "-f", str(self._folder / "haproxy.cfg")])
        self.await_standbys()
        with psycopg.connect(self._superuser_url(), autocommit=True) as connection:
            connection.execute(f"CREATE ROLE ussd LOGIN PASSWORD '{self._passwords['CHANGE-ussd']}'")
            connection.execute("CREATE DATABASE ussd OWNER ussd ENCODING 'UTF8' TEMPLATE template0")

    def start_node(self, node: str) -> None:
        """Start everything that a node runs and that does not run now."""
        home = self.home(node)
        etcd = dict(re.findall(r"^(ETCD_\w+)=(.*)$", self._written("etcd.env", node), re.MULTILINE))
        self._run("etcd", node, ["etcd", "--log-level", "error"], etcd)
        self._run("patroni", node, ["patroni", str(home / "patroni.yml")])
        self._run("redis", node, ["redis-server", str(home / "redis.conf")])
        self._run("sentinel", node, ["redis-sentinel", str(home / "sentinel.conf")])

    def _prepare(self, node: str) -> None:
        home = self.home(node)
        for name in ("etcd", "redis", "sockets"):
            (home / name).mkdir(mode=0o700)
        for name in ("patroni.yml", "pgbackrest.conf", "redis.conf", "sentinel.conf"):
            (home / name).write_text(self._written(name, node))
        if node != NODES[0]:
            with (home / "redis.conf").open("a") as file:
                file.write(f"replicaof {self._network}.1 6379\n")

    def stop(self) -> None:
        """End every process that it started."""
        for node in NODES:
            if ("patroni", node) in self._running:
                self.kill(node)
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait(20)
        self._running.clear()
        if self.machines:
            self.machines.stop()

    def home(self, node: str) -> Path:
        """The folder of a node."""
        return self._folder / node

    def run(self, node: str, *command: str, answers: str = "") -> str:
        """Run a command to its end on a node, as PostgreSQL's user; give what it prints. `answers` is what it reads."""
        home = self.home(node)
        backups = {"PGBACKREST_CONFIG": str(home / "pgbackrest.conf"), "PGBACKREST_LOCK_PATH": str(self._folder)}
        words = [*self._on(node), *command]
        ran = subprocess.run(
            words, cwd=home, env=os.environ | backups, input=answers, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    def stop_patroni(self, node: str) -> None:
        """Stop Patroni and PostgreSQL of a node, as `systemctl stop patroni` does."""
        process = self._running.pop(("patroni", node))
        process.terminate()
        process.wait(60)

    def primary(self) -> str:
        """The node that Patroni calls the primary. Waits until there is one."""
        return self._one("/primary")

    def synchronous(self) -> str:
        """The node that has each commit before it is acknowledged. Waits until there is one."""
        return self._one("/synchronous")

    def await_standbys(self) -> None:
        """Wait until two nodes stream from the primary, one of them synchronously."""
        eventually(lambda: sum(self._is(node, "/replica") for node in NODES) == len(NODES) - 1)
        self.synchronous()

    def switch_over(self) -> None:
        """Make the synchronous standby the primary, as before maintenance."""
        primary, follower = self.primary(), self.synchronous()
        words = ("switchover", "--primary", primary, "--candidate", follower, "--force", "ussd")
        self.run(primary, "patronictl", "-c", str(self.home(primary) / "patroni.yml"), *words)

    def kill(self, node: str) -> None:
        """Kill Patroni and PostgreSQL of a node, as when its machine stops."""
        for each in self._pids(node):
            _signal(each, signal.SIGKILL)
        self._running.pop(("patroni", node)).wait()

    def freeze(self, node: str) -> None:
        """Stop Patroni and PostgreSQL of a node without ending a connection, as a machine that hangs."""
        for each in self._pids(node):
            _signal(each, signal.SIGSTOP)

    def thaw(self, node: str) -> None:
        """Let a frozen node go on."""
        for each in self._pids(node):
            _signal(each, signal.SIGCONT)

    def serves_reads_only(self, node: str) -> bool:
        """Whether PostgreSQL of a node answers, and takes no writes."""
        url = re.sub(r"@.*?/", f"@{self._address(node)}:5432/", self._superuser_url())
        try:
            with psycopg.connect(url, connect_timeout=2) as database:
                return database.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
        except psycopg.OperationalError:
            return False

    def redis_master(self) -> str:
        """The node whose Redis is the master of another one. Waits until there is one."""
        found = list[str]()
        eventually(lambda: bool(found.extend(node for node in NODES if self._has_redis_replicas(node)) or found))
        return found[0]

    def kill_redis(self, node: str) -> None:
        """Kill Redis and the Sentinel of a node."""
        for program in ("redis", "sentinel"):
            process = self._running.pop((program, node))
            process.kill()
            process.wait()

    def _superuser_url(self) -> str:
        password = self._passwords["CHANGE-superuser"]
        return re.sub(r"//.*?@(.*?)/ussd", rf"//postgres:{password}@\1/postgres", self.database_url)

    def _pids(self, node: str) -> list[int]:
        """Patroni and PostgreSQL with all their processes. PostgreSQL is no child of Patroni."""
        parents = [self._running["patroni", node].pid]
        with suppress(FileNotFoundError):
            parents.append(int((self.home(node) / "data" / "postmaster.pid").read_text().split()[0]))
        return [pid for parent in parents for pid in (parent, *descendants(parent))]

    def _has_redis_replicas(self, node: str) -> bool:
        address, password = self._address(node), self._passwords["CHANGE-redis"]
        try:
            with Redis(address, password=password, socket_timeout=1) as redis:
                role = redis.role()
        except RedisError:
            return False
        return bool(role[0] == b"master" and role[2])

    def _address(self, node: str) -> str:
        return f"{self._network}.{1 + NODES.index(node)}"

    def _one(self, path: str) -> str:
        found = list[str]()
        eventually(lambda: bool(found.extend(node for node in NODES if self._is(node, path)) or found))
        return found[0]

    def _is(self, node: str, path: str) -> bool:
        connection = http.client.HTTPConnection(self._address(node), 8008, timeout=1)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def _run(self, program: str, node: str, command: list[str], environment: Mapping[str, str] = {}) -> None:
        if (program, node) in self._running:
            return
        home = self.home(node)
        variables = os.environ | {"HOME": str(home), **environment}
        with (home / f"{program}.log").open("ab") as log:
            self._running[program, node] = subprocess.Popen(
                [*self._on(node), *command], cwd=home, env=variables, stdout=log, stderr=log
            )

    def _on(self, node: str) -> list[str]:
        """The beginning of a command that runs on a node, and of one on this computer for no node."""
        return [*(self.machines.inside(node) if self.machines and node else []), *self._as]

    def _written(self, name: str, node: str = "db1") -> str:
        """A file of `deploy/cluster/` for a node, with paths, addresses and passwords of this test."""
        text = (_FILES / name).read_text()
        number, home = 1 + NODES.index(node), self._folder / node
        if number > 1:
            kept = re.findall(r"^(?:ETCD_INITIAL_CLUSTER=|  hosts: |sentinel monitor ).*$", text, re.MULTILINE)
            text = text.replace("10.0.0.1", f"10.0.0.{number}").replace("db1", node)
            for line in kept:
                changed = line.replace("10.0.0.1", f"10.0.0.{number}").replace("db1", node)
                text = text.replace(changed, line)
        # Whatever loopback address is called, the caller's is 127.0.0.1.
        replaced = {} if self.machines else {"10.0.0.0/24": "127.0.0.0/8"}
        replaced |= {
            "10.0.0.": f"{self._network}.",
            "127.0.0.1:": f"{self._network}.9:",
            "/var/lib/postgresql/15/ussd": str(home / "data"),
            "/var/lib/postgresql/": f"{home}/",
            "/var/run/postgresql": str(home / "sockets"),
            "/var/lib/etcd/default": str(home / "etcd"),
            "/var/lib/redis": str(home / "redis"),
            "/etc/patroni": str(home),
            "/etc/pgbackrest.conf": str(home / "pgbackrest.conf"),
            "/var/lib/pgbackrest": str(self._folder / "backups"),
            **self._passwords,
        }
        for ours, theirs in replaced.items():
            text = text.replace(ours, theirs)
        return text


@contextmanager
def running_cluster(folder: Path) -> Iterator[Cluster]:
    """A cluster, until the block ends."""
    cluster = Cluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _all_files() -> str:
    return "".join(path.read_text() for path in _FILES.iterdir() if path.is_file())


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
