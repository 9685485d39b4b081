"""The base of both stand-ins: a book, a clock, switches, callbacks, access tokens, and how payments end."""

import json
import secrets
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from flask import Response, request

from simulators.book import Book, BookedPayment, BookedStep, RequestedPayment
from simulators.callbacks import CallbackSender
from simulators.layouts import MovedLine, TableLayout, with_balances
from simulators.statements import StatementForm, write_statement, written_time
from simulators.switches import CurrentSwitches, StandInClock, Switches

APPROVAL_SECONDS = 300.0


class RefusalError(Exception):
    """The provider's response to a call that it refuses: an HTTP status and a JSON body."""

    def __init__(self, status: int, body: Mapping[str, Any]) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


@dataclass(frozen=True)
class Authorizer(ABC):
    """Issues tokens and checks the tokens of calls."""

    book: Book
    clock: StandInClock

    @abstractmethod
    def prepare(self) -> None:
        """Add the credentials that exist before the first call; does nothing when the book has them."""

    def credential(self, kind: str, name: str) -> dict[str, Any] | None:
        """Returns the details of a credential, or None when it is unknown or expired."""
        return self.book.find_credential(kind, name, self.clock.now())

    def create_token(self, details: dict[str, Any], seconds: float) -> str:
        """Returns a new token that is valid for `seconds`."""
        token = secrets.token_urlsafe(32)
        self.book.add_credential("token", token, details, self.clock.now() + seconds)
        return token

    def bearer(self) -> dict[str, Any] | None:
        """Returns the details of the call's bearer token, or None when the call has no valid one."""
        sent = request.authorization
        token = sent.token if sent is not None and sent.type == "bearer" else None
        return self.credential("token", token or "")


@dataclass(frozen=True, slots=True)
class Scenario:
    """The final status of a payment and its reason or result code.

    It is reached after `seconds`, through the status and code `before` if there is one. The provider loses the first
    submission of a `lost` payment.
    """

    status: str
    reason: str = ""
    before: tuple[str, str] | None = None
    seconds: float = 0.0
    lost: bool = False

    def steps(self, at: float) -> tuple[BookedStep, ...]:
        """Returns the steps of a payment that starts to settle `at` this time, in seconds since 1970."""
        last = BookedStep(at + self.seconds, self.status, self.reason)
        return (last,) if self.before is None else (BookedStep(at, *self.before), last)


def second_thoughts(
    steps: tuple[BookedStep, ...], success: str, failed: tuple[str, str], switches: Switches
) -> tuple[BookedStep, ...]:
    """Returns steps that end in `success` with the later reversal that the switches set; others as they are.

    `failed` is the status and the reason of the failure.
    """
    last = steps[-1]
    later = last.at + switches.second_thought_seconds
    if last.status != success:
        return steps
    if switches.success_after_failure:
        return (*steps[:-1], BookedStep(last.at, *failed), BookedStep(later, success, last.reason))
    if switches.failure_after_success:
        return (*steps, BookedStep(later, *failed))
    return steps


@dataclass(frozen=True, slots=True)
class ProviderRoute:
    """One route of a provider: the name its requests are counted by, its kind of call, and its view."""

    method: str
    path: str
    endpoint: str
    call: str
    view: Callable[..., Response]
    fixed: dict[str, Any] = field(default_factory=dict)


class StandIn(ABC):
    """A provider as its clients see it over HTTP."""

    name: ClassVar[str]
    callback_method: ClassVar[str]
    # The statuses of success and of failure, which are the ones that callbacks report.
    final_statuses: ClassVar[tuple[str, str]]
    payout_kinds: ClassVar[tuple[str, ...]]
    layouts: ClassVar[Mapping[str, TableLayout]]
    access: Authorizer

    def __init__(self, currency: str, book_path: str, switches: Switches | None) -> None:
        self.currency = currency
        self.book = Book(book_path)
        self.clock = StandInClock(self.book.saved_clock_offset())
        self.switches = CurrentSwitches(switches or Switches())
        self.callbacks = CallbackSender(self.book, self.clock, self.switches, self.callback_method, self.callback)
        self.stopping = threading.Event()
        self.layout = next(iter(self.layouts))

    @abstractmethod
    def routes(self) -> list[ProviderRoute]:
        """Returns every route of the provider."""

    @abstractmethod
    def reference(self) -> str:
        """Returns the payment reference that the current request names, or an empty string."""

    @staticmethod
    @abstractmethod
    def error(status: int, code: str = "") -> Mapping[str, Any]:
        """Returns the body of an error of this HTTP status, in the provider's format."""

    @abstractmethod
    def callback(self, payment: BookedPayment, step: BookedStep, switches: Switches) -> dict[str, Any]:
        """Returns the body of the callback for a step of a payment."""

    @abstractmethod
    def movement(self, payment: BookedPayment, step: BookedStep) -> MovedLine:
        """Returns the line of a payment whose latest step this is, without its balance."""

    def statement(self, form: StatementForm, day: str = "") -> bytes:
        """Returns the statement of the book as it is now, a line for each payment, in the order of their times.

        `day` (2026-11-03) leaves out what is of other days in Kampala.
        """
        now = self.clock.now()
        movements = [self.movement(payment, payment.step_at(now)) for payment in self.book.payments()]
        movements.sort(key=lambda movement: movement.at)
        listed = [
            movement
            for movement in with_balances(movements)
            if written_time(movement.at, StatementForm()).startswith(day)
        ]
        return write_statement(listed, form, self.layouts[form.layout or self.layout])

    def start(self) -> None:
        """Begin to send callbacks."""
        self.access.prepare()
        self.callbacks.start()

    def stop(self) -> None:
        """Release every held connection, stop sending callbacks and close the book."""
        self.stopping.set()
        self.callbacks.stop()
        self.book.close()

    def advance(self, seconds: float) -> None:
        """Move the clock forward, which settles payments, expires tokens and sends the callbacks that are due."""
        self.clock.advance(seconds)
        self.book.save_clock_offset(self.clock.offset_seconds)
        self.callbacks.wake()

    def reset(self) -> None:
        """Delete payments, requests and credentials made at run time; restore switches and clock."""
        with self.book.transaction():
            self.book.clear()
            self.clock.offset_seconds = 0.0
            self.switches.restore()
            self.access.prepare()

    def accept(
        self, requested: RequestedPayment, steps: tuple[BookedStep, ...], receipt: str, callback_url: str = ""
    ) -> BookedPayment | None:
        """Insert a payment and queue the callbacks of its final statuses.

        Returns None, and inserts nothing, when the reference is used.
        """
        last = steps[-1]
        payment = BookedPayment(
            **asdict(requested),
            currency=self.currency,
            receipt=receipt,
            accepted_at=steps[0].at,
            steps=steps,
            paid_at=last.at if last.status == self.final_statuses[0] else None,
            callback_url=callback_url,
        )
        delay_seconds = self.switches.now.callback_delay_seconds
        with self.book.transaction():
            if not self.book.insert(payment):
                return None
            for number, step in enumerate(steps):
                if callback_url and step.status in self.final_statuses:
                    self.book.queue_callback(payment.reference, number, step.at + delay_seconds)
        self.callbacks.wake()
        return payment

    def visible_payment(self, reference: str) -> BookedPayment | None:
        """Returns the payment, or None when there is none or the switch `hidden_seconds` still hides it."""
        payment = self.book.find(reference)
        hidden_seconds = self.switches.now.hidden_seconds
        return payment if payment and self.clock.now() >= payment.accepted_at + hidden_seconds else None

    def payout_float_cents(self, by: float | None = None) -> int:
        """Returns the money left for payouts at a time (seconds since 1970), or after all payments have settled."""
        return self.switches.now.opening_balance * 100 - self.book.paid_cents(self.payout_kinds, by)


def json_body() -> object:
    """Returns the request's body as JSON, None for an empty body; raises ValueError for all but JSON in UTF-8."""
    sent = request.get_data()
    try:
        return json.loads(sent.decode()) if sent.strip() else None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def empty_response(status: int) -> Response:
    """Returns a response without a body and without a content type."""
    response = Response(status=status)
    del response.headers["Content-Type"]
    return response
