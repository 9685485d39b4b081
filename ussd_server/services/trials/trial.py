"""Tries a connection as the first hour with a live provider does: a few small payments, each sent once."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.movements import IN, OUT
from ussd_server.models.providers import TrialPayment
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.messages import Direction, Outcome, PaymentOrder, Provider, ProviderAnswer
from ussd_server.providers.package import ProviderAccess
from ussd_server.providers.registry import PACKAGES, build_providers
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.gates.messages import Told, UseKind, WayIn
from ussd_server.services.gates.movements import find_or_make
from ussd_server.services.gates.sending import SendingGate
from ussd_server.services.gates.uses import use
from ussd_server.services.movements.movements import sign_last_use
from ussd_server.services.providers.providers import problems_of_amount
from ussd_server.services.runtime import Runtime
from ussd_server.services.trials.messages import REPORT_FORMAT, TrialReport, TrialStep, TryProvider
from ussd_server.services.trials.record import (
    Masks,
    RecordedExchange,
    RecordingTransport,
    clock_difference,
    forms_in,
    recorded_call,
    unknown_in,
)
from ussd_server.status import Code, ServiceError
from ussd_server.values import written_amount

_FINAL = (Outcome.SUCCEEDED, Outcome.FAILED)
# Payers have five minutes to approve, and Airtel wants no enquiry in the first three.
_LONGEST_WAIT_SECONDS = 600.0
_REASON = "a payment of `ussd-server providers try`"


class TrialService:
    """Tries connections, for operators only."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._gate = runtime, SendingGate(runtime)

    def run(
        self,
        request: TryProvider,
        context: RequestContext,
        announce: Callable[[str], object],
        pause: Callable[[float], object] = time.sleep,
    ) -> TrialReport:
        """Take every step in its order. `announce` gets a sentence before each payment, `pause` waits some seconds.

        Raises INVALID_REQUEST for a connection that the settings do not have and an amount that it does not move, and
        SERVICE_UNAVAILABLE while money is held: nothing was tried then.
        """
        context.require_operator()
        self._gate.require_open()
        access = self._runtime.settings.providers.get(request.connection)
        if access is None:
            names = ", ".join(self._runtime.settings.providers) or "none"
            raise ServiceError(Code.INVALID_REQUEST, f"No such connection; the settings have: {names}")
        trial = _Trial(self._runtime, access, request, context, announce, pause)
        with trial.opened():
            return trial.report()


class _Trial:
    """One trial, with an adapter of its own whose calls are recorded."""

    def __init__(
        self,
        runtime: Runtime,
        access: ProviderAccess,
        request: TryProvider,
        context: RequestContext,
        announce: Callable[[str], object],
        pause: Callable[[float], object],
    ) -> None:
        self._runtime, self._access, self._request, self._context = runtime, access, request, context
        self._announce, self._pause = announce, pause
        self._package = next(each for each in PACKAGES if each.name == access.kind)
        self._known_replies = self._package.known_replies()
        self._masks = Masks(set(access.secrets), numbers={request.phone_number, self._wrong_number})
        self._transports: list[RecordingTransport] = []
        self._steps: list[TrialStep] = []
        self._calls: list[dict[str, object]] = []
        self._sent: list[tuple[TrialStep, str]] = []
        self._provider: Provider

    @property
    def _wrong_number(self) -> str:
        prefix = self._package.number_prefixes[-1]
        return self._request.wrong_number or f"+256{prefix}0000000"

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Build the adapter, and close its connections in the end."""
        settings, tokens = self._runtime.settings, self._runtime.tokens

        def make(**options: object) -> RecordingTransport:
            self._transports.append(RecordingTransport(**options))
            return self._transports[-1]

        (self._provider,) = build_providers(
            {self._access.connection: self._access},
            self._runtime.clock.now,
            ca_file=settings.ca_file,
            is_sandbox=False,
            callback_url=lambda name: settings.public_url + tokens.callback_path(name) if settings.public_url else None,
            make_transport=make,
        )
        try:
            yield
        finally:
            self._provider.close()

    def report(self) -> TrialReport:
        """Take every step, and return what came of them."""
        cents = self._request.amount_cents
        problems = problems_of_amount(self._provider, cents, Direction.COLLECTION)
        if problems:
            raise ServiceError(Code.INVALID_REQUEST, " ".join(problems))
        for direction in (Direction.COLLECTION, Direction.DISBURSEMENT):
            if self._provider.bounds[direction].enabled:
                self._try_balance(direction)
        self._try_name()
        if self._provider.bounds[Direction.COLLECTION].enabled:
            self._try_payments()
        for step, reference in self._sent:
            _note_callback(step, TrialPayment.get_by_id(reference))
        return TrialReport(
            REPORT_FORMAT,
            self._access.kind,
            self._access.connection,
            version("ussd-server"),
            self._runtime.clock.now(),
            cents,
            clock_difference(self._transports[0].exchanges),
            self._steps,
            self._calls,
        )

    def _try_balance(self, direction: Direction) -> None:
        with self._step(f"balance for {direction}s", "our balance") as step:
            balance = self._provider.balance_cents(direction, self._timeout)
            is_asked = self._calls_since(step)
            step.ok = balance is not None or not is_asked
            refusal = self._provider.refusal if is_asked else ""
            step.came = written_amount(balance) if balance is not None else refusal or "none"

    def _try_name(self) -> None:
        with self._step("name of the number", "a name") as step:
            subscriber = self._provider.look_up(self._request.phone_number, self._timeout)
            step.ok, step.came = (
                bool(subscriber.name),
                "a name" if subscriber.name else self._provider.refusal or "none",
            )
            self._masks.secrets |= {subscriber.name, *subscriber.name.split()} if subscriber.name else set()

    def _try_payments(self) -> None:
        amount = written_amount(self._request.amount_cents)
        self._announce(f"{amount} is collected from a number that is no wallet; nobody is asked.")
        failed = (FailureCode.PAYER_NOT_FOUND,)
        _, refused = self._pay("collection from a wrong number", Direction.COLLECTION, self._wrong_number, failed)
        if refused.outcome is Outcome.NOT_SENT:
            # Nothing would come to the phone.
            return
        self._announce(f"{amount} is collected: decline it on the phone.")
        declined = (FailureCode.PAYER_DECLINED, FailureCode.PAYER_TIMEOUT)
        self._pay("declined collection", Direction.COLLECTION, self._request.phone_number, declined)
        self._announce(f"{amount} is collected: approve it on the phone.")
        collected, answer = self._pay("collection", Direction.COLLECTION, self._request.phone_number)
        if answer.outcome is Outcome.SUCCEEDED:
            self._give_back(collected, answer)

    def _give_back(self, collected: PaymentOrder, answer: ProviderAnswer) -> None:
        bounds = self._provider.bounds
        way = Direction.REFUND if bounds[Direction.REFUND].enabled else Direction.DISBURSEMENT
        if not bounds[way].enabled:
            with self._step("money back", "it goes back") as step:
                step.came = "neither refunds nor disbursements are set up: give it back by hand"
            return
        self._announce(f"{written_amount(self._request.amount_cents)} goes back by a {way}.")
        original = (collected.provider_reference, answer.provider_transaction_id) if way is Direction.REFUND else None
        self._pay("money back", way, self._request.phone_number, original=original)

    def _pay(
        self,
        name: str,
        direction: Direction,
        number: str,
        failures: tuple[FailureCode, ...] = (),
        original: tuple[str, str | None] | None = None,
    ) -> tuple[PaymentOrder, ProviderAnswer]:
        """Send one payment, once, and query it until it is final. It is to succeed, or to fail by one of `failures`."""
        reference = str(uuid.uuid4())
        self._masks.references.add(reference)
        order = PaymentOrder(
            f"trial-{reference}",
            reference.replace("-", "") if self._provider.plain_references else reference,
            direction,
            number,
            self._request.amount_cents,
            self._access.currency,
            "Trial payment",
            original_provider_reference=original[0] if original else None,
            original_provider_transaction_id=original[1] if original else None,
        )
        expected = f"failed: {' or '.join(failures)}" if failures else "succeeded"
        with self._step(name, expected) as step:
            self._write(order, reference, name)
            self._sent.append((step, reference))
            answer = self._provider.send(replace(order, asked_at=self._runtime.clock.now()), self._timeout)
            answer = self._wait(order, answer)
            if answer.outcome is Outcome.SUCCEEDED:
                self._book_own(order, answer, reference)
            step.came = ": ".join(filter(None, [answer.outcome, answer.failure, answer.reason]))
            step.ok = answer.failure in failures if failures else answer.outcome is Outcome.SUCCEEDED
        return order, answer

    def _wait(self, order: PaymentOrder, answer: ProviderAnswer) -> ProviderAnswer:
        """Query a payment as its schedule says until its outcome is final, ten minutes at most."""
        delays, waited_seconds = self._provider.schedule.delays, 0.0
        for number in range(len(delays) * 10):
            delay = delays[min(number, len(delays) - 1)]
            is_over = answer.outcome in (*_FINAL, Outcome.NOT_SENT) or answer.has_no_query
            if is_over or waited_seconds + delay > _LONGEST_WAIT_SECONDS:
                break
            self._pause(delay)
            waited_seconds += delay
            answer = self._provider.query_status(order, self._timeout)
        return answer

    def _write(self, order: PaymentOrder, reference: str, name: str) -> None:
        """Write a payment before it is sent."""
        now = self._runtime.clock.now()
        with unit_of_work():
            TrialPayment.create(
                provider_reference=reference,
                connection=self._access.connection,
                direction=order.direction,
                amount_cents=order.amount_cents,
                sent_to=self._provider.place(order.direction),
                sent_at=now,
            )
            reason = f"{name}, {written_amount(order.amount_cents)}, {reference}"
            write_audit_event(
                "provider.tried", self._context, now, client_id=None, object_id=self._provider.name, reason=reason
            )

    def _book_own(self, order: PaymentOrder, answer: ProviderAnswer, reference: str) -> None:
        """Book what moved as the operator's own; without a receipt a statement tells of it."""
        if answer.provider_transaction_id is None:
            return
        now, direction = self._runtime.clock.now(), IN if order.direction is Direction.COLLECTION else OUT
        movement = Told(
            WayIn.ENQUIRY,
            self._provider.account,
            direction,
            order.amount_cents,
            answer.provider_transaction_id,
            order.phone_number,
            now,
        )
        with unit_of_work():
            money = find_or_make(movement, now)
            if money.is_new and money.movement is not None:
                TrialPayment.get_by_id(reference).change(movement_id=money.movement.id)
                use(money.movement, UseKind.OWN, now, reason=_REASON)
                sign_last_use(self._runtime.vault, money.movement.id)

    @contextmanager
    def _step(self, name: str, expected: str) -> Iterator[TrialStep]:
        """A step, to which the calls within the block belong."""
        step = TrialStep(name, expected)
        began = len(self._exchanges)
        self._steps.append(step)
        yield step
        step.came = self._masks.text(step.came)
        for exchange in self._exchanges[began:]:
            call = recorded_call(name, exchange, self._access.base_url, self._masks)
            self._calls.append(call)
            step.took_ms.append(call["took_ms"])
            fields, codes = unknown_in(call.get("reply"), self._known_replies)
            step.unknown_fields = sorted({*step.unknown_fields, *fields})
            step.unknown_codes = sorted({*step.unknown_codes, *codes})
            step.forms = sorted({*step.forms, *forms_in(call.get("reply"))})

    def _calls_since(self, step: TrialStep) -> bool:
        return len(self._exchanges) > sum(len(each.took_ms) for each in self._steps if each is not step)

    @property
    def _exchanges(self) -> list[RecordedExchange]:
        return self._transports[0].exchanges

    @property
    def _timeout(self) -> float:
        return self._runtime.settings.provider_timeout_seconds


def _note_callback(step: TrialStep, payment: TrialPayment) -> None:
    """Note when the callback of a step's payment came, if it did."""
    if payment.callback_at is not None:
        step.callback_seconds = round((payment.callback_at - payment.sent_at).total_seconds(), 1)
