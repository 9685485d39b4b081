"""`ussd-server run`: the first start, failures of its processes, and the stop."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from tests.support.commands import run_command
from tests.support.eventually import eventually
from tests.support.real_service.service import Service, command_line, descendants, environment, start

FACTS = {
    "base_url", "email", "password", "client_id", "apikey", "apisecret",
    "viewer_email", "viewer_password", "approver_email", "approver_password", "service_code", "gateway_path",
    "operator_email", "operator_password", "second_operator_email", "second_operator_password",
}  # fmt: skip


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service that the tests of this file share; the last one stops it."""
    # So long that the address of a socket in it would not fit.
    running = Service(tmp_path_factory.mktemp("run") / ("long-" * 20) / "data")
    yield running
    running.stop()


def test_a_newcomer_finds_everything_in_a_private_file(service: Service) -> None:
    file = service.folder / "demo.json"
    assert set(service.demonstration) == FACTS
    assert all(service.demonstration.values())
    assert service.demonstration["base_url"] == f"http://127.0.0.1:{service.port}"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(service.folder.stat().st_mode) == 0o700
    for secret in service.folder.iterdir():
        assert not secret.stat().st_mode & 0o077, secret


def test_the_console_is_printed_first_and_the_log_goes_to_a_file(service: Service) -> None:
    first, *_ = re.findall(r"http://\S+", service.welcome)
    assert first == f"{service.demonstration['base_url']}/console"
    service.call("GET", "/health/live")
    lines = (service.folder / "service.log").read_text
    eventually(lambda: any(json.loads(line)["event"] == "call" for line in lines().splitlines()))


def test_every_printed_curl_command_works_when_pasted(service: Service) -> None:
    commands = re.findall(r"^  (curl .*)$", service.welcome, re.MULTILINE)
    answers = [json.loads(subprocess.check_output(["bash", "-c", command], text=True)) for command in commands]
    login, payment = answers
    assert login["message"] == "Login successful"
    assert payment["data"]["status"] == "succeeded"


def test_the_printed_phone_walks_the_menu_to_a_payment(service: Service) -> None:
    printed = re.search(r"^  (USSD_DATA_DIR=\S+) \S+ (dial .*)$", service.welcome, re.MULTILINE)
    assert printed
    # The tests may run where the command is not installed; this is the same command.
    command = f"{printed[1]} {sys.executable} -m ussd_server.cli {printed[2]}"
    screens = subprocess.check_output(["bash", "-c", command], input="1\n8000\n1\n", text=True)
    assert "Deposit UGX 8,000" in screens

    def is_collected() -> bool:
        items = service.call("GET", "/data/collection?status=succeeded", headers=service.key)[1]["data"]["items"]
        return any(item["amount"] == 8000 and item["session_id"] for item in items)

    eventually(is_collected)


def test_the_doctor_shows_the_settings_of_the_running_service_and_what_differs_here(service: Service) -> None:
    def ask(**settings: str) -> tuple[dict[str, Any], dict[str, Any]]:
        known = environment(service.folder, **{"USSD_BIND": f"127.0.0.1:{service.port}", **settings})
        said = json.loads(run_command("doctor", "--json", env=known).stdout)
        return said, {finding["part"]: finding for finding in said["findings"]}

    said, findings = ask()
    assert [each["process"] for each in said["running"]] == ["web", "worker"]
    assert all(each["settings"]["USSD_BIND"] == f"127.0.0.1:{service.port}" for each in said["running"])
    assert findings["running web"]["mend"] is findings["running worker"]["mend"] is None
    said, findings = ask(USSD_MACHINES="3")
    assert "USSD_MACHINES is 1 there and 3 here" in findings["running web"]["found"]
    assert "Restart it" in findings["running web"]["mend"]
    assert said["healthy"] is False


def test_a_second_run_in_the_same_folder_is_refused_in_one_sentence(service: Service) -> None:
    assert _refusal(service.folder, 1) == (
        f"Error: The data folder {service.folder} is in use by another run: "
        "stop that one, or set USSD_DATA_DIR to another folder.\n"
    )


def test_a_port_in_use_is_refused_in_one_sentence(service: Service, tmp_path: Path) -> None:
    assert _refusal(tmp_path, service.port) == (
        f"Error: Port {service.port} on 127.0.0.1 is in use: "
        "set USSD_BIND to another address and port, such as 127.0.0.1:8001.\n"
    )


def test_a_folder_that_cannot_be_written_to_is_refused_in_one_sentence() -> None:
    # No user can make a folder there, root included.
    folder = Path("/proc/ussd-server")
    assert _refusal(folder, 1) == (
        f"Error: The data folder {folder} cannot be written to: set USSD_DATA_DIR to a folder that can.\n"
    )


def test_what_is_not_http_is_refused_in_json(service: Service) -> None:
    for raw, status in (
        (b"GET / HTTP/1.1\r\nX Y: z\r\n\r\n", 400),
        (b"G\xc3\xa9T / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"GET /%s HTTP/1.1\r\n\r\n" % (b"a" * 9000), 413),
        (b"GET / HTTP/1.1\r\nX-Long: %s\r\n\r\n" % (b"a" * 9000), 413),
        (b"POST /api/transactions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"POST /api/transactions HTTP/1.1\r\nTransfer-Encoding: zip, chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST /api/transactions HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
    ):
        head, body = _send(service.port, raw)
        assert int(head.split()[1]) == status, raw[:60]
        assert "content-type: application/json" in head.lower()
        assert "x-request-id: " in head.lower()
        assert set(json.loads(body)) == {"success", "error", "message", "timestamp"}


def test_the_counts_of_all_web_processes_are_added_up(service: Service) -> None:
    for _ in range(20):
        service.call("GET", "/nowhere")
    # Each process adds up its counts once a second.
    eventually(lambda: _unknown_paths_counted(service) == 20)


def test_a_process_that_dies_is_started_again(service: Service) -> None:
    killed = {pid: line for pid, line in descendants(service.pid).items() if _parent_of(pid) == service.pid}
    assert len(killed) == 3
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: sum(_parent_of(pid) == service.pid for pid in descendants(service.pid)) == 3)
    eventually(lambda: _is_redis_up(service))
    assert not killed.keys() & descendants(service.pid).keys()


def test_a_second_start_keeps_data_and_credentials_and_a_signal_stops_everything(service: Service) -> None:
    family = descendants(service.pid)
    paid = _stop_twice_amid_a_call(service)
    assert paid["status"] == "succeeded"
    assert service.stop(signal.SIGTERM) == 0
    assert not [line for pid, line in family.items() if command_line(pid) == line]

    second = Service(service.folder, port=service.port, USSD_WORKERS="1")
    assert second.demonstration == service.demonstration
    status, kept = second.call("GET", f"/api/transactions/{paid['transaction_id']}", headers=second.key)
    assert (status, kept["data"]["amount"]) == (200, 900)
    assert second.call("GET", "/health/ready")[1]["data"]["redis"] == "up"
    family = descendants(second.pid)
    second.stop(signal.SIGKILL)
    eventually(lambda: not [line for pid, line in family.items() if command_line(pid) == line])


def _stop_twice_amid_a_call(service: Service) -> dict[str, Any]:
    """Ask for the stop twice while a call is under way, which finishes all the same; give its answer."""
    body = b'{"type": "collection", "phone_number": "+256770000000", "amount": 900, "reference": "kept"}'
    fields = {**service.key, "Content-Type": "application/json", "Content-Length": len(body), "Expect": "100-continue"}
    address = ("127.0.0.1", service.port)
    with socket.create_connection(address, timeout=60) as connection, connection.makefile("rb") as reply:
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        connection.sendall(f"POST /api/transactions?wait=20 HTTP/1.1\r\nHost: here\r\n{head}\r\n".encode())
        # The service asks for the body: the call is under way.
        assert reply.readline().split()[1] == b"100"
        assert reply.readline() == b"\r\n"
        for _ in range(2):
            os.kill(service.pid, signal.SIGTERM)
            eventually(lambda: not _is_waiting(service.pid, signal.SIGTERM))
        connection.sendall(body)
        received, answer = _read(reply)
    assert received.split()[1] == "201"
    return dict(json.loads(answer)["data"])


def _is_redis_up(service: Service) -> bool:
    try:
        return bool(service.call("GET", "/health/ready")[1].get("data", {}).get("redis") == "up")
    except (OSError, http.client.HTTPException):
        # A process that lost its main process ends, and takes its connections along.
        return False


def _refusal(folder: Path, port: int) -> str:
    refused = start(folder, port, USSD_LOG_LEVEL="INFO")
    said, complained = refused.communicate(timeout=60)
    assert (refused.returncode, said) == (1, "")
    return complained


def _unknown_paths_counted(service: Service) -> int:
    connection = socket.create_connection(("127.0.0.1", service.port))
    with connection, connection.makefile("rb") as answer:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        labels = rb'code="NOT_FOUND",endpoint="unknown",status="404"'
        counted = re.search(rb"ussd_calls_total\{" + labels + rb"\} (\d+)", answer.read())
    return int(counted[1]) if counted else 0


def _send(port: int, raw: bytes) -> tuple[str, str]:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection, connection.makefile("rb") as reply:
        connection.sendall(raw)
        return _read(reply)


def _read(reply: BinaryIO) -> tuple[str, str]:
    """The head and the body of a reply."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += reply.readline()
    length = re.search(rb"content-length: (\d+)", head.lower())
    assert length
    return head.decode("latin-1"), reply.read(int(length[1])).decode()


def _is_waiting(pid: int, number: signal.Signals) -> bool:
    """Whether a signal was sent to a process that has not handled it yet."""
    pending = re.search(r"^ShdPnd:\s*([0-9a-f]+)$", (Path("/proc") / str(pid) / "status").read_text(), re.MULTILINE)
    assert pending
    return bool(int(pending[1], 16) >> (number - 1) & 1)


def _parent_of(pid: int) -> int | None:
    try:
        return int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None
