"""Stand-ins of the providers as processes of their own, and the settings that lead to them."""

from __future__ import annotations

import http.client
import json
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from testbed.ports import free_port

_REPOSITORY = Path(__file__).parents[2]
_MTN_KEYS = {"API_USER": "9f0f1a53-37c3-4b30-8c5d-2b1f2a9f6a11", "API_KEY": "an-api-key"}


class StandInProcess:
    """One stand-in: its address, its book, and the switches that make it misbehave."""

    def __init__(self, name: str, *options: str, port: int | None = None, tls: ssl.SSLContext | None = None) -> None:
        """`tls` is what believes its certificate, when the options give it one."""
        self.port = port or free_port()
        self._tls = tls
        self.base_url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", f"simulators.{name}", "--port", str(self.port), *options]
        self._process = subprocess.Popen(command, cwd=_REPOSITORY, stdout=subprocess.PIPE, text=True)
        assert "stand-in at" in self._process.stdout.readline()

    def control(self, method: str, path: str, body: Any = None) -> Any:
        """Use one of its controls."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if self._tls:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self._tls)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request(method, f"/_control/{path}", None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            return json.loads(answer.read())
        finally:
            connection.close()

    def flick(self, **switches: Any) -> None:
        """Set some of its switches."""
        self.control("PUT", "switches", switches)

    def reset(self) -> None:
        """Let it forget everything."""
        self.control("POST", "reset")

    def book(self) -> dict[str, Any]:
        """Its book: the payments that it moved."""
        return dict(self.control("GET", "book"))

    def paid(self) -> dict[str, int]:
        """The references of the payments that it moved, and their amounts in cents."""
        return {each["reference"]: each["amount_cents"] for each in self.book()["payments"] if each["paid"]}

    def statement(self) -> bytes:
        """Its statement, as CSV."""
        with urllib.request.urlopen(f"{self.base_url}/_control/statement", timeout=60) as answer:
            return bytes(answer.read())

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(60)
        self._process.stdout.close()


def start_mtn(*options: str, **place: Any) -> StandInProcess:
    """An MTN that is live: with callbacks, in shillings."""
    keys = ["--api-user", _MTN_KEYS["API_USER"], "--api-key", _MTN_KEYS["API_KEY"]]
    return StandInProcess("mtn", "--environment", "mtnuganda", *keys, *options, **place)


def start_airtel(*options: str, **place: Any) -> StandInProcess:
    """An Airtel Money."""
    return StandInProcess("airtel", *options, **place)


def mtn_settings(base_url: str) -> dict[str, str]:
    """The settings that switch this MTN on."""
    products = {
        f"USSD_MTN_{product.upper()}_{name}": value
        for product in ("collection", "disbursement")
        for name, value in {"SUBSCRIPTION_KEY": f"{product}-key", **_MTN_KEYS}.items()
    }
    return {"USSD_MTN_BASE_URL": base_url, "USSD_MTN_ENVIRONMENT": "mtnuganda", **products}


def airtel_settings(base_url: str) -> dict[str, str]:
    """The settings that switch this Airtel on."""
    return {
        "USSD_AIRTEL_BASE_URL": base_url,
        "USSD_AIRTEL_CLIENT_ID": "airtel-client",
        "USSD_AIRTEL_CLIENT_SECRET": "airtel-secret",
        "USSD_AIRTEL_PIN": "1234",
    }
