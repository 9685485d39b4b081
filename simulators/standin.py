"""What every stand-in is made of: a book, a clock, switches, a courier, and a Flask application in front."""

import json
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import HTTPException

from simulators import control, wire
from simulators.book import Book, Payment, Step
from simulators.callbacks import Courier
from simulators.clock import Clock
from simulators.switches import SwitchBoard, Switches


class RefusalError(Exception):
    """The company's answer to a call it does not carry out: an HTTP status and a JSON body, or none."""

    def __init__(self, status: int, body: Mapping[str, Any] | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True)
class Route:
    """One call of a company: its endpoint name (as the book counts it), its kind of call, and what answers it."""

    method: str
    path: str
    endpoint: str
    call: str
    view: Callable[..., Response]
    fixed: dict[str, Any] = field(default_factory=dict)


class StandIn(ABC):
    """A money company as its clients see it over HTTP."""

    callback_method: ClassVar[str] = "POST"

    def __init__(self, book_path: str = ":memory:", switches: Switches | None = None) -> None:
        self.book = Book(book_path)
        self.clock = Clock(self.book.kept_clock())
        self.switches = SwitchBoard(switches or Switches())
        self.courier = Courier(self)
        self.stopping = threading.Event()
        self.calls = {route.endpoint: route.call for route in self.routes()}
        self.furnish()

    @abstractmethod
    def routes(self) -> list[Route]:
        """Every call the company offers."""

    @abstractmethod
    def furnish(self) -> None:
        """Put into an empty book what the company knows before the first call; does nothing to a furnished one."""

    @abstractmethod
    def reference(self) -> str:
        """The reference the present request is about, or an empty text."""

    @abstractmethod
    def error(self, status: int, code: str = "") -> Mapping[str, Any]:
        """The body of an error of this HTTP status, in the company's format."""

    @abstractmethod
    def callback(self, payment: Payment, step: Step, switches: Switches) -> dict[str, Any]:
        """The body of the callback that tells of a step of a payment."""

    def app(self) -> Flask:
        """The application that serves this stand-in and its controls."""
        app = Flask(f"simulators.{type(self).__name__}", static_folder=None)
        app.extensions["stand_in"] = self
        app.url_map.strict_slashes = False
        for route in self.routes():
            app.add_url_rule(
                route.path, route.endpoint, route.view, methods=[route.method], defaults=route.fixed or None
            )
        app.register_error_handler(RefusalError, self._refuse)
        app.register_error_handler(HTTPException, self._refuse_unknown)
        wire.install(app, self)
        app.register_blueprint(control.blueprint(self), url_prefix="/_control")
        return app

    def start(self) -> None:
        """Begin to send callbacks."""
        self.courier.start()

    def stop(self) -> None:
        """Let every held connection go, stop sending callbacks and close the book."""
        self.stopping.set()
        self.courier.stop()
        self.book.close()

    def advance(self, seconds: float) -> None:
        """Move the clock forward, which settles payments, ends tokens and sends the callbacks that fall due."""
        self.clock.advance(seconds)
        self.book.keep_clock(self.clock.offset_seconds)
        self.courier.wake()

    def reset(self) -> None:
        """Forget everything: payments, requests, credentials made at run time, switches and clock."""
        with self.book.exclusively():
            self.book.clear()
            self.clock.offset_seconds = 0.0
            self.switches.restore()
            self.furnish()

    def enter(self, payment: Payment, told: tuple[int, ...]) -> bool:
        """Write a payment and plan the callbacks of the steps numbered in `told`; False when the reference is used."""
        delay_seconds = self.switches.now.callback_delay_seconds
        with self.book.exclusively():
            if not self.book.write(payment):
                return False
            if payment.callback_url:
                for number in told:
                    self.book.queue_callback(payment.reference, number, payment.steps[number].at + delay_seconds)
        self.courier.wake()
        return True

    def _refuse(self, refusal: RefusalError) -> Response:
        answer = empty(refusal.status) if refusal.body is None else jsonify(refusal.body)
        answer.status_code = refusal.status
        return answer

    def _refuse_unknown(self, error: HTTPException) -> Response:
        status = error.code or 500
        answer = jsonify(self.error(status))
        answer.status_code = status
        return answer


def empty(status: int) -> Response:
    """An answer without a body, and so without a content type."""
    answer = Response(status=status)
    del answer.headers["Content-Type"]
    return answer


def json_body() -> object:
    """The request's body as JSON; None for no body; ValueError for anything that is not JSON in UTF-8."""
    sent = request.get_data()
    try:
        return json.loads(sent.decode()) if sent.strip() else None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def second_thoughts(
    steps: tuple[Step, ...], success: str, failed: tuple[str, str], switches: Switches
) -> tuple[Step, ...]:
    """Steps that end in `success`, with the change of mind the switches ask for; `failed` is a status and a reason."""
    last = steps[-1]
    later = last.at + switches.second_thought_seconds
    if last.status != success:
        return steps
    if switches.success_after_failure:
        return (*steps[:-1], Step(last.at, *failed), Step(later, success, last.reason))
    if switches.failure_after_success:
        return (*steps, Step(later, *failed))
    return steps
