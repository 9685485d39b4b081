"""Sends a provider's callbacks from one thread, each when it is due. It repeats none; `callback_copies` sends more."""

import ipaddress
import json
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx2

from simulators.book import Book, BookedPayment, BookedStep, DueCallback
from simulators.switches import CurrentSwitches, StandInClock, Switches

TIMEOUT_SECONDS = 5.0


class CallbackSender:
    """Sends due callbacks in order, to the loopback interface only.

    `method` is the provider's HTTP method, `body` makes the body for a step of a payment.
    """

    def __init__(
        self,
        book: Book,
        clock: StandInClock,
        switches: CurrentSwitches,
        method: str,
        body: Callable[[BookedPayment, BookedStep, Switches], dict[str, Any]],
    ) -> None:
        self._book = book
        self._clock = clock
        self._switches = switches
        self._method = method
        self._body = body
        self._awake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._work, name="callbacks", daemon=True)

    def start(self) -> None:
        """Begin with the callbacks that are due already."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the callback under way and end the thread."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join()

    def wake(self) -> None:
        """Check again for due callbacks: a payment, the clock or a switch has changed."""
        self._awake.set()

    def _work(self) -> None:
        # Stand-ins on the loopback interface have certificates of their own making, and nothing is sent beyond it.
        with httpx2.Client(timeout=TIMEOUT_SECONDS, trust_env=False, follow_redirects=False, verify=False) as client:
            while not self._stopping:
                self._awake.clear()
                now = self._clock.now()
                for due in self._in_order(self._book.due_callbacks(now)):
                    self._deliver(client, due)
                next_at = self._book.next_callback_at(now)
                self._awake.wait(None if next_at is None else max(0.0, next_at - self._clock.now()))

    def _in_order(self, due: list[DueCallback]) -> list[DueCallback]:
        if not self._switches.now.reorder_callbacks:
            return due
        pairs = zip(due[::2], due[1::2], strict=False)
        return [callback for first, second in pairs for callback in (second, first)]

    def _deliver(self, client: httpx2.Client, due: DueCallback) -> None:
        payment = self._book.find(due.reference)
        if self._stopping or not self._book.take_callback(due.number) or payment is None:
            return
        switches = self._switches.now
        method = switches.callback_method or self._method
        body = json.dumps(self._body(payment, payment.steps[due.step], switches), separators=(",", ":"))
        for _ in range(switches.callback_copies):
            sent_at = self._clock.now()
            result = _send(client, method, payment.callback_url, body) if switches.callbacks else "withheld"
            self._book.insert_delivery(payment.reference, method, payment.callback_url, body, sent_at, result)


def _send(client: httpx2.Client, method: str, url: str, body: str) -> str:
    """Send once; returns the HTTP status of the response, or the reason why there is none."""
    if not _is_loopback(url):
        return "not a loopback address"
    try:
        with client.stream(method, url, content=body, headers={"Content-Type": "application/json"}) as response:
            return str(response.status_code)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return type(error).__name__


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
