"""Backups of a cluster by pgBackRest, and its restore, by the commands of `docs/CLUSTER.md`."""

from __future__ import annotations

from datetime import datetime

from tests.support.eventually import eventually
from tests.support.real_service.cluster import NODES, Cluster

_BIN = "/usr/lib/postgresql/15/bin"


class Backups:
    """The backups of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._node = ""

    def make(self) -> None:
        """Make the repository and the first backup."""
        self._node = self._cluster.primary()
        for words in (("stanza-create",), ("check",), ("--type=full", "backup")):
            self._run("pgbackrest", "--stanza=ussd", *words)

    def await_archive(self) -> None:
        """Wait until all that was committed is in the archive."""
        self._node = self._cluster.primary()
        segment = self._ask("SELECT pg_walfile_name(pg_switch_wal())")
        eventually(lambda: self._ask("SELECT last_archived_wal FROM pg_stat_archiver") >= segment)

    def restore(self, moment: datetime) -> None:
        """Bring all nodes back to what the database was at `moment`. No node may be in use."""
        for node in NODES:
            self._cluster.stop_patroni(node)
        patronictl = ("patronictl", "-c", str(self._cluster.home(self._node) / "patroni.yml"))
        self._run(*patronictl, "remove", "ussd", answers="ussd\nYes I am aware\n")
        for node in NODES:
            data = self._cluster.home(node) / "data"
            data.rename(data.with_name("before"))
        target = ("--type=time", f"--target={moment.isoformat(sep=' ')}", "--target-action=promote")
        data = self._cluster.home(self._node) / "data"
        self._run("mkdir", "-m", "700", str(data))
        self._run("pgbackrest", "--stanza=ussd", *target, "restore")
        control = (f"{_BIN}/pg_ctl", "-D", str(data), "-s", "-w")
        self._run(*control, "-l", str(data.with_name("restore.log")), "-o", "-c listen_addresses=", "start")
        eventually(lambda: self._ask("SELECT pg_is_in_recovery()") == "f")
        self._run(*control, "-m", "fast", "stop")
        # The others copy what this node has.
        self._cluster.start_node(self._node)
        assert self._cluster.primary() == self._node
        for node in NODES:
            self._cluster.start_node(node)
        self._cluster.await_standbys()

    def _ask(self, question: str) -> str:
        return self._run("psql", "-h", str(self._cluster.home(self._node) / "sockets"), "-XAtc", question).strip()

    def _run(self, *command: str, answers: str = "") -> str:
        return self._cluster.run(self._node, *command, answers=answers)
