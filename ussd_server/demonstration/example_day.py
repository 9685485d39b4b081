"""A day of example data: subscribers walk the menu and pay through the sandbox, and the client pays out.

Everything goes through the services that real calls use. The plan is the same each time. The service's time
begins a day ago and is moved by hand.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from ussd_server.app import create_app
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext, new_request_id, operator_context
from ussd_server.database.unit_of_work import dialect
from ussd_server.demonstration.operators import leave_work, person_context
from ussd_server.gateways.messages import GatewayRequest
from ussd_server.services.incoming.messages import NotifyPayment, PutPaymentCode, SetPrefix
from ussd_server.services.payouts.messages import ApprovePayout, CreatePayout
from ussd_server.services.payouts.sending import PayoutSender
from ussd_server.services.processing.processor import PaymentProcessor
from ussd_server.services.transactions.create import TransactionCreator
from ussd_server.services.transactions.messages import CreateRefund, CreateTransaction, TransactionType, TransactionView
from ussd_server.services.webhooks.messages import CreateWebhook

if TYPE_CHECKING:
    from ussd_server.demonstration.client import Demonstration

_DAY = timedelta(hours=24)
_AT_ONCE = 50
_SESSIONS_AT_ONCE = 200
_READS_SECONDS = 6.0
_NETWORK = "64110"
_PREFIX = "DEMO"


class MovingTime:
    """Moves the service's time of a process that runs alone, and does what the background worker would do in that time.

    The row of the service's time stays a day behind until the end: the database stamps ledger entries with its own time
    or the transfer's, whichever is later.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._timekeeper = services.timekeeper
        self._unfinished = services.settings.data_dir / "examples.unfinished"
        # A day is made in seconds, and the limiter counts by the real time.
        hurried = replace(services.runtime, within_rate=lambda _: True)
        self._processor = PaymentProcessor(hurried)
        self._sender = PayoutSender(hurried, services.subscriber_names, TransactionCreator(hurried))

    def end_interrupted(self) -> None:
        """Set the service's time right where an earlier process died while it moved it."""
        if self._unfinished.exists():
            self._end()

    @contextmanager
    def begin(self) -> Iterator[None]:
        """Set the time back by a day for the block; it is right again afterwards."""
        self._unfinished.touch()
        try:
            self._timekeeper.set_time(self._services.clock.now() - _DAY)
            with dialect().without_syncs():
                yield
        finally:
            self._end()

    def now(self) -> datetime:
        return self._services.clock.now()

    def wait(self, seconds: float) -> None:
        """Let `seconds` pass, then advance the payouts and settle the payments that are due."""
        self._services.clock.anchor(self.now() + timedelta(seconds=seconds))
        while payouts := self._sender.claim(_AT_ONCE):
            for payout_id in payouts:
                self._sender.advance(payout_id)
        while due := self._processor.claim(_AT_ONCE):
            for claimed in due:
                self._processor.advance(claimed)

    def wait_until(self, moment: datetime) -> None:
        """Let the time come to `moment`, if it is still ahead; then end expired sessions and relay events."""
        self.wait(max(0.0, (moment - self.now()).total_seconds()))
        self._services.api_sessions.end_expired(_SESSIONS_AT_ONCE)
        self._services.relay.run()

    def _end(self) -> None:
        self._timekeeper.set_time(None)
        self._unfinished.unlink(missing_ok=True)


class Phones:
    """Dials one service code through one channel of Africa's Talking."""

    def __init__(self, services: Services, time: MovingTime, service_code: str, gateway_path: str) -> None:
        """`gateway_path` ends in the adapter's name and the secret of the channel."""
        self._gateways = services.gateways
        self._time = time
        self._service_code = service_code
        self._adapter, self._secret = gateway_path.rstrip("/").split("/")[-2:]

    def walk(self, phone_number: str, entries: Sequence[str], *, hangs_up: bool = False) -> None:
        """Dial, and send `entries` until the menu ends. Then hang up, or answer no more."""
        fields = {
            "sessionId": f"example-{secrets.token_hex(8)}",
            "phoneNumber": phone_number,
            "serviceCode": self._service_code,
            "networkCode": _NETWORK,
        }
        sent: list[str] = []
        screen = self._send(fields, sent)
        for entry in entries:
            if screen.startswith("END"):
                return
            self._time.wait(_READS_SECONDS)
            sent.append(entry)
            screen = self._send(fields, sent)
        if hangs_up and not screen.startswith("END"):
            self._report_end(fields)

    def _send(self, fields: dict[str, str], sent: Sequence[str]) -> str:
        body = urlencode({**fields, "text": "*".join(sent)}).encode()
        reply = self._gateways.answer(self._adapter, self._secret, GatewayRequest("POST", body=body), new_request_id())
        return reply.body.decode()

    def _report_end(self, fields: dict[str, str]) -> None:
        body = urlencode({**fields, "status": "Incomplete"}).encode()
        self._gateways.record_end(self._adapter, self._secret, GatewayRequest("POST", body=body))


# Sessions and payments in each hour of the day in Kampala, from midnight.
_BUSY = (1, 0, 0, 0, 1, 2, 3, 5, 6, 5, 4, 5, 7, 6, 4, 4, 6, 8, 9, 7, 5, 4, 3, 2)
_KAMPALA = timedelta(hours=3)
_LAST_MINUTES = 12
# The sandbox answers by these numbers; most payers succeed.
_PAYERS = ("", "", "", "", "01", "", "", "02", "", "", "03", "", "05", "", "", "08", "", "06", "", "04")
_DROPPED_AFTER = (("1",), ("1", "20000"), ("4",), ("4", "0770000100"), ("4", "0770000100", "3000"), (), ("6",))
# No server can have a name that ends so: every delivery fails, as it would at a receiver that is down.
_WEBHOOK_URL = "https://hooks.demonstration.example/payments"
_STAFF = (("Nakato Mary", 350_000), ("Okello James", 280_000), ("Namusoke Ruth", 310_000), ("Mugisha Peter", 265_000))


class ExampleDay:
    def __init__(self, services: Services, time: MovingTime, made: Demonstration) -> None:
        self._services = services
        self._time = time
        self._client_id = made.client_id
        self._phones = Phones(services, time, made.service_code, made.gateway_path)
        context = operator_context(made.client_id)
        keys = services.api_keys.list(context)
        key_id = next(each.id for each in keys if each.apikey == made.apikey)
        self._credentials = {"x-api-key": made.apikey, "x-api-secret": made.apisecret}
        self._by_key = RequestContext(Caller(CallerKind.KEY, client_id=made.client_id, key_id=key_id, grants=None))
        self._by_owner, self._by_approver = (
            person_context(services, made.client_id, email) for email in (made.email, made.approver_email)
        )
        self._chance = random.Random(256)  # noqa: S311 - the same day each time
        self._number = 0
        self._references = 0
        self._savers: list[str] = []
        self._with_pins = set[str]()

    def live(self) -> None:
        """Make a day of data, from the present of `time` until a few seconds before its end."""
        begin, end = self._time.now(), self._time.now() + timedelta(hours=24)
        last = end - timedelta(minutes=_LAST_MINUTES)
        for hour in range(25):
            at = begin + timedelta(hours=hour)
            count = _BUSY[(at + _KAMPALA).hour]
            for moment in sorted(at + timedelta(seconds=self._chance.uniform(60, 3500)) for _ in range(count)):
                if moment < last:
                    self._time.wait_until(moment)
                    self._scene()
            if hour == 9:
                self._pay_staff("salaries-1", approve=True)
        self._time.wait_until(last)
        self._last_minutes()
        self._time.wait_until(end - timedelta(seconds=4))
        # Still pending when the first page is opened.
        self._collect("+256770000003", 12_000, settled_after=0.2)
        self._services.call_history.write()

    def _scene(self) -> None:
        self._number += 1
        number, payer = self._number, _PAYERS[self._number % len(_PAYERS)]
        phone = f"+2567700000{payer}" if payer else f"+2567700001{number % 30:02}"
        amount = 1000 * self._chance.choice((1, 2, 2, 3, 5, 5, 8, 10, 20, 35))
        match number % 9:
            case 0 | 3 | 5:
                self._collect(phone, amount)
            case 1 | 2 | 6:
                language = ("6", "2") if number % 4 == 0 else ()
                self._phones.walk(phone, (*language, "1", str(amount), "1"))
                self._settle()
                if not payer:
                    self._savers.append(phone)
            case 4:
                dropped = _DROPPED_AFTER[number % len(_DROPPED_AFTER)]
                self._phones.walk(f"+2567700002{number % 100:02}", dropped, hangs_up=number % 2 == 0)
            case 7:
                self._pay(TransactionType.DISBURSEMENT, f"+2567700001{number % 30:02}", amount, "payment")
                self._settle()
            case _:
                member = self._savers.pop(0) if self._savers else phone
                pin = "2580"
                chosen = () if member in self._with_pins else ("7", pin, pin, "1")
                self._with_pins.add(member)
                withdrawal, transfer = ("2", pin, "500", "1"), ("4", "0770000199", "700", "1", pin)
                self._phones.walk(member, (*chosen, *(withdrawal if number % 2 else transfer)))
                self._settle()

    def _last_minutes(self) -> None:
        """What an operator and an approver have to look at."""
        collected = self._collect("+256770000104", 45_000)
        self._services.refunds.create(
            CreateRefund(collected.transaction_id, self._reference("refund"), 15_000_00), self._by_key
        )
        self._settle()
        self._collect("+256770000009", 18_000)
        self._collect("+256770000007", 25_000)
        self._time.wait_until(self._time.now() + timedelta(seconds=60))
        self._services.webhooks.create(
            CreateWebhook(_WEBHOOK_URL, ("transaction.failed", "payout.needs_approval")), self._by_key
        )
        self._collect("+256770000001", 7_000)
        self._pay_staff("salaries-2", approve=False)
        self._payment_codes()
        self._calls()

    def _payment_codes(self) -> None:
        """A code, a payment with it, and one with a code that does not exist, which is held for the operator."""
        services, operator = self._services, operator_context(self._client_id)
        services.payment_codes.set_prefix(SetPrefix(self._client_id, _PREFIX), operator)
        code = services.payment_codes.put(PutPaymentCode(f"{_PREFIX}FEES1", "School fees (example)"), self._by_key).code
        for receipt, typed, amount in (("SBXIN0000001", code, 85_000), ("SBXIN0000002", f"{_PREFIX}FEES7", 60_000)):
            notice = NotifyPayment("sandbox", receipt, typed, amount * 100, "+256770000103", None, "Nakato Mary")
            services.notices.notify(notice, operator)
        leave_work(services, code, self._by_owner)

    def _calls(self) -> None:
        """Calls of the client's program: two messages that the sandbox delivers and two refused payments."""
        payment = {"type": "collection", "phone_number": "+256770000103", "amount": 5000, "reference": "order-new"}
        calls = (
            ("messages", {"phone_number": "+256770000101", "text": "Your order is ready.", "reference": "message-1"}),
            ("messages", {"phone_number": "+256770000102", "text": "We meet on Friday.", "reference": "message-2"}),
            ("transactions", payment | {"phone_number": "0770000103"}),
            ("transactions", payment | {"amount": "5,000"}),
        )
        web = create_app(self._services).test_client()
        for path, body in calls:
            web.post(f"/api/{path}", json=body, headers=self._credentials)
        self._services.runtime.request_recorder.write()

    def _collect(self, phone: str, amount: int, settled_after: float = 4.0) -> TransactionView:
        made = self._pay(TransactionType.COLLECTION, phone, amount, "order")
        self._settle(settled_after)
        return made

    def _pay(self, kind: TransactionType, phone: str, amount: int, purpose: str) -> TransactionView:
        request = CreateTransaction(kind, phone, amount * 100, self._reference(purpose), description="Example")
        return self._services.transactions.create(request, self._by_key).transaction

    def _pay_staff(self, reference: str, *, approve: bool) -> None:
        """Make a payout of salaries; `approve` it, or leave a draft in which one number is too short."""
        rows = [
            {"phone_number": f"+25677000012{line}", "amount": amount // 10, "reference": f"staff-{line}", "name": name}
            for line, (name, amount) in enumerate(_STAFF)
        ]
        if not approve:
            rows.append({"phone_number": "+25677000", "amount": 20_000, "reference": "staff-9", "name": "Too Short"})
        payouts = self._services.payouts
        made = payouts.create(CreatePayout(reference, "Salaries (example)", tuple(rows)), self._by_key)
        self._settle()
        if approve:
            payouts.approve(ApprovePayout(made.payout.payout_id), self._by_approver)
            self._settle(10)

    def _settle(self, seconds: float = 4.0) -> None:
        """Let time pass in steps, as the worker would settle a payment of this moment."""
        for share in (0.02, 0.1, 0.2, 0.3, 0.38):
            self._time.wait(share * seconds)

    def _reference(self, purpose: str) -> str:
        self._references += 1
        return f"{purpose}-{self._references:03}"
