"""An empty Debian with a systemd of its own, in namespaces of this machine. For root."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from tests.support.eventually import eventually

_PACKAGES = "ca-certificates,dbus,systemd-sysv"
# Authorities that this machine trusts beside the public ones: its network may have one of its own.
_AUTHORITIES = Path("usr/local/share/ca-certificates")
_ENVIRONMENT = {
    "DEBIAN_FRONTEND": "noninteractive",
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}


class Debian:
    """One machine in a folder."""

    def __init__(self, root: Path, init: Callable[[], str]) -> None:
        """`init` gives its process 1, as it is outside of it; another process for a moment while it starts."""
        self.root, self.init = root, init

    def is_running(self) -> bool:
        return self._shell("systemctl is-system-running").stdout in {"running\n", "degraded\n"}

    def run(self, script: str) -> str:
        """Type into a shell of root; give what it printed. Fails at the first command that fails."""
        ran = self.try_to(script)
        assert ran.returncode == 0, f"{script}\nended with {ran.returncode}:\n{ran.stdout[-4000:]}"
        return ran.stdout

    def try_to(self, script: str) -> subprocess.CompletedProcess[str]:
        """Type into a shell of root, which ends at the first command that fails."""
        return self._shell(f"set -eu\n{script}")

    def _shell(self, script: str) -> subprocess.CompletedProcess[str]:
        self.write("/root/typed", script)
        return subprocess.run(
            ["nsenter", "--target", self.init(), "--all", "--root", "--wd", "bash", "/root/typed"],
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )

    def write(self, path: str, text: str) -> None:
        """Write one of its files."""
        (self.root / path[1:]).write_text(text)


@contextmanager
def running_debian(suite: str, folder: Path) -> Iterator[Debian]:
    """A machine that debootstrap makes of a release, until the block ends."""
    root = folder / suite
    subprocess.run(["debootstrap", f"--include={_PACKAGES}", suite, root], check=True, stdout=subprocess.DEVNULL)
    for authority in (Path("/") / _AUTHORITIES).glob("*.crt"):
        shutil.copy(authority, root / _AUTHORITIES)
    place = ["--directory", root, "--hostname", "empty", "--private-network", "--resolv-conf=off"]
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root)
        log = stack.enter_context(root.with_suffix(".log").open("wb"))
        command = ["systemd-nspawn", "--register=no", "--keep-unit", *place, "--boot"]
        nspawn = stack.enter_context(_process(command, log))
        machine = Debian(root, lambda: Path(f"/proc/{nspawn.pid}/task/{nspawn.pid}/children").read_text().strip())
        eventually(machine.is_running)
        # The outside is reached by connections of this machine, and needs no rules of a firewall.
        network = ["slirp4netns", "--configure", "--mtu=1400", machine.init(), "tap0"]
        stack.enter_context(_process(network, log))
        machine.write("/etc/resolv.conf", "nameserver 10.0.2.3\n")
        # A person would say yes.
        machine.write("/etc/apt/apt.conf.d/99yes", 'APT::Get::Assume-Yes "true";\n')
        machine.run("update-ca-certificates && apt-get update")
        yield machine


@contextmanager
def _process(command: Sequence[str | Path], log: BinaryIO) -> Iterator[subprocess.Popen[bytes]]:
    environment = _ENVIRONMENT | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
    process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)
