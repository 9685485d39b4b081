"""The courier: one thread that sends a company's callbacks, each at its moment and never twice by itself."""

import ipaddress
import json
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx2

from simulators.book import DueCallback

if TYPE_CHECKING:
    from simulators.standin import StandIn

TIMEOUT_SECONDS = 5.0


class Courier:
    """Sends what falls due, in order, without retries and to the loopback interface only."""

    def __init__(self, stand_in: "StandIn") -> None:
        self._stand_in = stand_in
        self._awake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="courier", daemon=True)

    def start(self) -> None:
        """Begin with whatever is due already."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the callback under way and end."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Look again: a payment, the clock or a switch has changed."""
        self._awake.set()

    def _work(self) -> None:
        # Nobody signs certificates for the loopback interface, and nothing leaves it.
        with httpx2.Client(timeout=TIMEOUT_SECONDS, trust_env=False, follow_redirects=False, verify=False) as client:
            while not self._stopping:
                self._awake.clear()
                now = self._stand_in.clock.now()
                for due in self._in_order(self._stand_in.book.due_callbacks(now)):
                    self._deliver(client, due)
                next_at = self._stand_in.book.next_callback_at(now)
                self._awake.wait(None if next_at is None else max(0.0, next_at - self._stand_in.clock.now()))

    def _in_order(self, due: list[DueCallback]) -> list[DueCallback]:
        if not self._stand_in.switches.now.reorder_callbacks:
            return due
        pairs = zip(due[::2], due[1::2], strict=False)
        return [callback for first, second in pairs for callback in (second, first)]

    def _deliver(self, client: httpx2.Client, due: DueCallback) -> None:
        book = self._stand_in.book
        payment = book.find(due.reference)
        if self._stopping or not book.take_callback(due.number) or payment is None:
            return
        switches = self._stand_in.switches.now
        method = switches.callback_method or self._stand_in.callback_method
        body = json.dumps(self._stand_in.callback(payment, payment.steps[due.step], switches), separators=(",", ":"))
        for _ in range(switches.callback_copies):
            sent_at = self._stand_in.clock.now()
            answer = _send(client, method, payment.callback_url, body) if switches.callbacks else "withheld"
            book.note_delivery(payment.reference, method, payment.callback_url, body, sent_at, answer)


def _send(client: httpx2.Client, method: str, url: str, body: str) -> str:
    """Send once; the HTTP status that came back, or why none did."""
    if not _is_loopback(url):
        return "not a loopback address"
    try:
        with client.stream(method, url, content=body, headers={"Content-Type": "application/json"}) as answer:
            return str(answer.status_code)
    except (httpx2.HTTPError, httpx2.InvalidURL) as trouble:
        return type(trouble).__name__


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
