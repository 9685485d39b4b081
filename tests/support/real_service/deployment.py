"""An installation made from the files in `deploy/`: nginx, gunicorn and the worker, on real databases.

Of those files only paths, ports, addresses and the certificate are replaced. Unless a test wants production, the
sandbox provider is switched on.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from testbed.ports import free_port
from testbed.valkey import Server
from tests.support.commands import run_command
from tests.support.eventually import eventually
from tests.support.real_service.edge import Edge
from tests.support.real_service.service import answers
from tests.support.shop import CODE, PHONE, shop_document

_REPOSITORY = Path(__file__).parents[3]
_DEPLOY = _REPOSITORY / "deploy"
_PATIENCE_SECONDS = 60.0
# systemd passes a socket as file 3.
_WITH_SOCKET = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); "
    "os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid())); os.execvp(sys.argv[2], sys.argv[2:])"
)


class Deployment:
    """One installation in a folder of its own; `commands` are those of `docs/INSTALL.md`."""

    def __init__(
        self,
        folder: Path,
        database_url: str,
        redis_url: str,
        python: Path | None = None,
        machines: int = 1,
        **settings: str,
    ) -> None:
        """`python` is that of the virtual environment to use; this one's, unless another is given.

        Each of the `machines` has web processes of its own; they share all the rest.
        """
        self.folder = folder
        self._python = python or Path(sys.executable)
        self.web_ports = [free_port() for _ in range(machines)]
        for name in ("data", "etc"):
            (folder / name).mkdir(mode=0o700)
        self.edge = Edge(folder, self.web_ports)
        self.connect, self.call = self.edge.connect, self.edge.call
        self._replaced = {
            "/opt/ussd-server/.venv/bin/ussd-server": f"{self._python} -m ussd_server.cli",
            "/opt/ussd-server/.venv/bin/python": str(self._python),
            "/var/lib/ussd-server": str(folder / "data"),
            "/etc/ussd-server": str(folder / "etc"),
        }
        self.environment = self._read_environment() | {
            "USSD_DATABASE_URL": database_url,
            "USSD_REDIS_URL": redis_url,
            "USSD_ENV": "sandbox",
            "USSD_MACHINES": str(machines),
            "USSD_PUBLIC_URL": f"https://127.0.0.1:{self.edge.https_port}",
            **settings,
        }
        if python is None:
            self.environment["PYTHONPATH"] = str(_REPOSITORY)
        self._webs: list[subprocess.Popen[bytes]] = []
        self._kept: socket.socket | None = None
        self._others: list[subprocess.Popen[bytes]] = []

    def command(self, *words: str) -> Any:
        """Run `ussd-server` with these arguments, which must succeed; return the JSON that it prints."""
        return self.ask(*words, check=True)

    def ask(self, *words: str, check: bool = False) -> Any:
        """Run `ussd-server` with these arguments, which may report a fault; return the JSON that it prints."""
        environment = self._whole_environment()
        if self._python == Path(sys.executable):
            ran = run_command(*words, "--json", env=environment)
        else:
            command = [self._python, "-m", "ussd_server.cli", *words, "--json"]
            ran = subprocess.run(command, env=environment, cwd=self.folder, capture_output=True, text=True, check=False)
        assert not (check and ran.returncode), ran.stderr
        return json.loads(ran.stdout)

    def start(self) -> None:
        """Start what the units start, and nginx, and wait until it answers."""
        self._webs = [self._web(machine) for machine in range(len(self.web_ports))]
        self._others = [self._unit("worker"), self.edge.start()]
        eventually(self._is_ready)

    def stop(self) -> None:
        """Stop all of it, the first first."""
        for process in (*self._webs, *self._others):
            process.terminate()
        for process in (*self._webs, *self._others):
            process.wait(_PATIENCE_SECONDS)
        self._webs, self._others = [], []
        self._close_kept()

    @property
    def web_pids(self) -> list[int]:
        """The main web process of each machine, which keeps those that serve."""
        return [process.pid for process in self._webs]

    @property
    def server_pids(self) -> list[int]:
        """The main processes of the web processes of each machine, and that of nginx."""
        return [*self.web_pids, self._others[1].pid]

    def stop_web(self, machine: int = 0) -> None:
        """Stop the web processes of a machine, if they run, and close its port."""
        _stop(self._webs[machine])
        self._close_kept()

    def restart_web(self, machine: int = 0) -> None:
        """Stop the web processes of a machine, start others, and wait until they are ready."""
        _stop(self._webs[machine])
        self._webs[machine] = self._web(machine)
        eventually(lambda: answers(self.web_ports[machine], "/health/ready"))

    def restart_worker(self) -> None:
        """Stop the worker and start another."""
        _stop(self._others[0])
        self._others[0] = self._unit("worker")

    def written(self) -> str:
        """Everything that the web processes, the worker and nginx have logged."""
        return "".join(path.read_text(errors="replace") for path in self.folder.rglob("*.log"))

    def lines(self) -> list[dict[str, Any]]:
        """Everything that the web processes and the worker have logged: every line is one JSON object."""
        return [json.loads(line) for file in self.folder.glob("w*.log") for line in file.read_bytes().splitlines()]

    def _is_ready(self) -> bool:
        try:
            return self.call("GET", "/health/ready")[0] == http.HTTPStatus.OK
        except OSError:
            return False

    def _web(self, machine: int) -> subprocess.Popen[bytes]:
        folder = self.folder / f"machine-{machine}"
        folder.mkdir(mode=0o700, exist_ok=True)
        own = {"USSD_BIND": f"127.0.0.1:{self.web_ports[machine]}", "USSD_DATA_DIR": str(folder)}
        if len(self.web_ports) == 1 and self._kept is None:
            # As systemd does with ussd-server-web.socket.
            self._kept = socket.create_server(("127.0.0.1", self.web_ports[0]), backlog=4096)
        return self._unit("web", log=f"web-{machine}", keeps=self._kept, **own)

    def _close_kept(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _unit(
        self, name: str, log: str = "", keeps: socket.socket | None = None, **settings: str
    ) -> subprocess.Popen[bytes]:
        unit = self._replace((_DEPLOY / f"ussd-server-{name}.service").read_text())
        (command,) = re.findall(r"^ExecStart=(.+)$", unit, re.MULTILINE)
        (folder,) = re.findall(r"^WorkingDirectory=(.+)$", unit, re.MULTILINE)
        environment = self._whole_environment() | settings
        words, passed = shlex.split(command), []
        if keeps is not None:
            passed = [keeps.fileno()]
            words = [sys.executable, "-c", _WITH_SOCKET, str(keeps.fileno()), *words]
        with (self.folder / f"{log or name}.log").open("ab") as lines:
            return subprocess.Popen(words, env=environment, cwd=folder, stdout=lines, stderr=lines, pass_fds=passed)

    def _read_environment(self) -> dict[str, str]:
        example = self._replace((_DEPLOY / "environment.example").read_text())
        return dict(re.findall(r"^(USSD_[A-Z_]+)=(.*)$", example, re.MULTILINE))

    def _whole_environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("USSD_")}
        return inherited | self.environment

    def _replace(self, text: str) -> str:
        for ours, theirs in self._replaced.items():
            text = text.replace(ours, theirs)
        return text


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(_PATIENCE_SECONDS)


class Installed:
    """A running installation with a client, its owner, a key, a menu and a channel."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self.call = deployment.call
        deployment.command("secrets", "create", deployment.environment["USSD_SECRETS_FILE"])
        deployment.command("migrate")
        deployment.command("clients", "create", "acme")
        commands = (
            ("users", "create", "--email", "owner@acme.example", "--role", "owner"),
            ("keys", "create"),
            ("channels", "create", "--adapter", "africastalking"),
            ("codes", "assign", CODE),
        )
        with ThreadPoolExecutor(2) as pool:
            owner, key, channel, _ = pool.map(lambda each: deployment.command(*each, "--client", "acme"), commands)
        self.login = {"email": owner["email"], "password": owner["password"]}
        self.key = {"x-api-key": key["apikey"], "x-api-secret": key["apisecret"]}
        self.gateway_path = channel["gateway_path"]
        deployment.start()
        self.call("PUT", "/api/ussd/menus/shop", shop_document(), self.key)
        self.call("POST", "/api/ussd/menus/shop/publish", {}, self.key)
        self.call("PUT", f"/api/ussd/codes/{quote(CODE, safe='')}", {"menu_id": "shop"}, self.key)

    def dial(self, session: str, text: str = "", phone: str = PHONE) -> tuple[int, dict[str, str], bytes]:
        """A step of a conversation as the gateway sends it; `text` is everything entered so far."""
        step = {"sessionId": session, "phoneNumber": phone, "serviceCode": CODE, "text": text}
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        return self.call("POST", self.gateway_path, urlencode(step).encode(), form)


@contextmanager
def install(folder: Path, database_url: str, **settings: Any) -> Iterator[Installed]:
    """An installation in `folder` on a fresh database and a Redis of its own, until the block ends.

    The `settings` are those of `Deployment`.
    """
    (folder / "redis").mkdir()
    redis = Server(folder / "redis", port=free_port())
    deployment = Deployment(folder, database_url, f"redis://127.0.0.1:{redis.port}/0", **settings)
    try:
        yield Installed(deployment)
    finally:
        deployment.stop()
        redis.stop()
