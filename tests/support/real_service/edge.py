"""nginx with its files in `deploy/`, in front of whatever listens on the given ports.

Of these only paths, ports, addresses and the certificate are replaced. A caller on this machine may say in the
header `X-Test-Address` where it calls from.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from testbed.ports import free_port
from tests.conftest import PROGRAM_FOLDERS
from tests.outbound.certificates import certified

HOST = "ussd.example.com"
_DEPLOY = Path(__file__).parents[3] / "deploy"
SITE = (_DEPLOY / "nginx.conf").read_text()
MAIN = (_DEPLOY / "nginx-main.conf").read_text()

_PATIENCE_SECONDS = 60.0
# Where nginx keeps bodies and replies; and who a caller on this machine says to be.
_OF_TESTS = """
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    set_real_ip_from 127.0.0.1;
    real_ip_header X-Test-Address;
    include {folder}/site.conf;
"""


class Edge:
    """nginx in a folder of its own."""

    def __init__(self, folder: Path, machine_ports: Sequence[int], site: str = SITE, main: str = MAIN) -> None:
        """Each port is that of a machine behind nginx; `site` and `main` are the contents of its two files."""
        self.https_port, self.http_port = free_port(), free_port()
        self._folder = folder
        self._machine_ports = machine_ports
        self._site, self._main = site, main
        (folder / "nginx").mkdir(mode=0o700)

    def start(self) -> subprocess.Popen[bytes]:
        """Start nginx; gives its main process."""
        folder = self._folder
        _, self._trust = certified(HOST, folder, f"www.{HOST}")
        site = self._site.replace("/var/log/nginx", str(folder / "nginx"))
        site = re.sub(r"/\S+/(fullchain|privkey)\.pem", str(folder / "server.pem"), site)
        site = re.sub(r"^ *listen \[::\]:.*$", "", site, flags=re.MULTILINE)
        site = re.sub(r"^ *server 127\.0\.0\.1:8000.*\n", self._machines, site, flags=re.MULTILINE)
        site = site.replace("listen 443", f"listen 127.0.0.1:{self.https_port}")
        site = site.replace("listen 80", f"listen 127.0.0.1:{self.http_port}")
        (folder / "site.conf").write_text(site)
        main = self._main.replace("user www-data;", "user root;" if os.getuid() == 0 else "")
        main = main.replace("/run/nginx.pid", str(folder / "nginx.pid"))
        main = main.replace("/var/log/nginx", str(folder / "nginx"))
        main = main.replace("    include /etc/nginx/conf.d/*.conf;\n", _OF_TESTS.format(folder=folder))
        (folder / "main.conf").write_text(f"daemon off;\n{main}")
        program = shutil.which("nginx", path=PROGRAM_FOLDERS)
        assert program, "nginx is not installed"
        return subprocess.Popen([program, "-c", folder / "main.conf", "-e", folder / "nginx" / "main.log"])

    def _machines(self, line: re.Match[str]) -> str:
        return "".join(line[0].replace("8000", str(port)) for port in self._machine_ports)

    def connect(self, host: str = HOST) -> socket.socket:
        """A fresh TLS connection to nginx, as a caller of `host` opens it."""
        plain = socket.create_connection(("127.0.0.1", self.https_port), timeout=_PATIENCE_SECONDS)
        return self._trust.wrap_socket(plain, server_hostname=host)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        host: str = HOST,
    ) -> tuple[int, dict[str, str], Any]:
        """Call over TLS; give the status, the headers with small names, and the body, read if it is JSON.

        `body` is sent as JSON, or as it is when it is bytes.
        """
        connection = http.client.HTTPConnection(host)
        connection.sock = self.connect(host)
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        try:
            connection.request(method, path, sent, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            read = answer.read()
            is_json = found.get("content-type") == "application/json"
            return answer.status, found, json.loads(read) if is_json and read else read
        finally:
            connection.close()


def assert_guarded(headers: Mapping[str, str]) -> None:
    """Check the headers of a reply, from nginx or from the service."""
    assert headers["x-request-id"]
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"


def assert_refused(answer: tuple[int, dict[str, str], Any], status: int, error: str) -> None:
    """Check a reply in the general envelope, from nginx or from the service."""
    found, headers, body = answer
    assert (found, body["success"], body["error"]) == (status, False, error)
    assert set(body) == {"success", "error", "message", "timestamp"}
    written_at = datetime.strptime(body["timestamp"], "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert re.fullmatch(r"[0-9T:-]{19}\.[0-9]{3}Z", body["timestamp"])
    assert abs((datetime.now(UTC) - written_at).total_seconds()) < 60
    assert_guarded(headers)


def assert_refused_to_people(answer: tuple[int, dict[str, str], Any], status: int) -> None:
    """Check a reply in the key-management envelope, from nginx or from the service."""
    found, headers, body = answer
    assert (found, body["status"], body["data"]) == (status, status, None)
    assert set(body) == {"status", "message", "data"}
    assert headers["cache-control"] == "no-store"
    assert_guarded(headers)
