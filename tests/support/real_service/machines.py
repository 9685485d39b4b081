"""Machines on one computer: network namespaces at one switch, each of which can be cut off from the others."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Sequence

# Reserved for tests of networks: no machine outside has such an address.
_NETWORKS = "198.18"
_THIS_COMPUTER = 9
_NO_MACHINE = "02:00:00:00:00:00"
# A namespace lives as long as its process, which ends with the tests.
_NAMESPACE = ("setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c", "echo made; exec sleep infinity")


def machines_can_be_made() -> bool:
    """Whether this process may make network namespaces."""
    if os.getuid() or not shutil.which("ip"):
        return False
    return subprocess.run(["unshare", "--net", "true"], check=False, capture_output=True).returncode == 0


class Machines:
    """Machines with the addresses .1, .2 and so on of `network`; this computer is .9 there."""

    def __init__(self, names: Sequence[str]) -> None:
        number = secrets.randbelow(256)
        self.network = f"{_NETWORKS}.{number}"
        self._names = names
        self._namespaces = {name: _namespace() for name in ("switch", *names)}
        switch = self._namespaces["switch"].pid
        self._ip("switch", "link", "add", "bridge", "type", "bridge")
        self._ip("switch", "link", "set", "bridge", "up")
        for name in names:
            self._ip("switch", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", self._pid(name))
            self._ip(name, "address", "add", f"{self._address(name)}/24", "dev", "eth0")
            self._ip(name, "link", "set", "eth0", "up")
            self._ip(name, "link", "set", "lo", "up")
        ours = f"machines{number}"
        _command("ip", "link", "add", ours, "type", "veth", "peer", "name", "computer", "netns", str(switch))
        _command("ip", "address", "add", f"{self.network}.{_THIS_COMPUTER}/24", "dev", ours)
        _command("ip", "link", "set", ours, "up")
        for name in (*names, "computer"):
            self._ip("switch", "link", "set", name, "up", "master", "bridge")

    def inside(self, name: str) -> list[str]:
        """The beginning of a command that runs on this machine."""
        return ["nsenter", f"--net=/proc/{self._pid(name)}/ns/net", "--"]

    def cut_off(self, name: str) -> None:
        """Let every packet between this machine and the others get lost. This computer still reaches it."""
        self._change_neighbours(name, "replace", "lladdr", _NO_MACHINE, "nud", "permanent")

    def join(self, name: str) -> None:
        """Undo `cut_off`."""
        self._change_neighbours(name, "delete")

    def _change_neighbours(self, name: str, verb: str, *words: str) -> None:
        for other in self._names:
            if other != name:
                self._ip(name, "neighbour", verb, self._address(other), "dev", "eth0", *words)
                self._ip(other, "neighbour", verb, self._address(name), "dev", "eth0", *words)

    def stop(self) -> None:
        """End the machines. What runs on them goes on without a network."""
        for process in self._namespaces.values():
            process.kill()
            process.wait()

    def _address(self, name: str) -> str:
        return f"{self.network}.{1 + self._names.index(name)}"

    def _pid(self, name: str) -> str:
        return str(self._namespaces[name].pid)

    def _ip(self, name: str, *words: str) -> None:
        _command(*self.inside(name), "ip", *words)


def _namespace() -> subprocess.Popen[bytes]:
    process = subprocess.Popen(_NAMESPACE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as printed:
        printed.readline()
    return process


def _command(*words: str) -> None:
    subprocess.run(words, check=True)
