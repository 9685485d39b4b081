"""A school with its people, payers, provider and bank, in one process and on one clock that tests set forward."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx2
import pyotp
from flask import Flask
from werkzeug.test import TestResponse

from simulators.africastalking import AfricasTalkingSms
from simulators.book import BookedPayment, BookedStep
from simulators.mtn import MtnMomo, MtnSettings
from simulators.server import run, serving
from simulators.statements import StatementForm
from simulators.till import Payment, Reply, Till
from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor, confirmation
from tests.support.example_client import PASSWORD, ExampleClient
from ussd_server.app import create_app
from ussd_server.bootstrap import Services, build_services
from ussd_server.context import operator_context
from ussd_server.database.unit_of_work import close_connections
from ussd_server.providers.mtn.adapter import MtnAccess, MtnProduct
from ussd_server.redis.client import connect
from ussd_server.senders.messages import SmsAccess
from ussd_server.services.operators.messages import CreateOperator
from ussd_server.services.ussd.messages import CreateChannel
from ussd_server.settings import Settings
from ussd_server.values import KAMPALA, new_id

FIRST = date(2030, 11, 1)
CODE = "*284*77#"
_OPERATOR = operator_context()
_IDLE = timedelta(minutes=20)


class Person(ConsoleVisitor):
    """A person at the console, who signs in again after a pause."""

    def __init__(self, school: School, email: str, factor: str = "") -> None:
        super().__init__(school.app.test_client())
        self.school, self.email, self.factor = school, email, factor
        self._seen_at = datetime.min.replace(tzinfo=UTC)

    def open(self, path: str) -> str:
        """The page of a path."""
        self._begin()
        reply = self.get(path)
        assert reply.status_code == 200, (path, reply.status_code)
        return reply.text

    def rows(self, path: str) -> list[dict[str, Any]]:
        """The rows of a list."""
        self._begin()
        return list(self.get(f"{path}{'&' if '?' in path else '?'}format=json").json["items"])

    def file(self, path: str) -> list[dict[str, str]]:
        """The rows of a file."""
        return list(csv.DictReader(io.StringIO(self.open(path).removeprefix("\ufeff"))))

    def send(self, form: str, **fields: Any) -> str:
        """Send a form; the path to which it leads."""
        self._begin()
        reply = self.post(form, **fields)
        assert reply.status_code == 303, (form, reply.status_code, reply.text)
        return str(reply.location).removeprefix("/console")

    def refused(self, form: str, **fields: Any) -> str:
        """Send a form that is shown again; its page."""
        self._begin()
        reply: TestResponse = self.post(form, **fields)
        assert reply.status_code == 400, reply.status_code
        return reply.text

    def confirm(self) -> str:
        """Confirm the first proposal of another operator; what its box said."""
        page = self.open("/operator/proposals")
        path, digest = confirmation(page)
        assert self.post(path, digest=digest).status_code == 303
        return page

    def _begin(self) -> None:
        now = self.school.clock.now()
        if now - self._seen_at > _IDLE:
            of = "/operator" if self.factor else ""
            self.get(f"{of}/sign-in")
            code = {"code": pyotp.TOTP(self.factor).at(now)} if self.factor else {}
            assert self.post(f"{of}/sign-in", email=self.email, password=PASSWORD, **code).status_code == 303
            self.get("/operator/proposals" if self.factor else "/bank-account")
        self._seen_at = now


class School:
    """The school with its people, payers, provider and bank."""

    def __init__(
        self, services: Services, clock: MovableClock, app: Flask, mtn: MtnMomo, sms: AfricasTalkingSms
    ) -> None:
        self.services, self.clock, self.app, self.mtn, self.sms = services, clock, app, mtn, sms
        clock.anchor(datetime(FIRST.year, FIRST.month, FIRST.day, 4, tzinfo=UTC))
        self._follow()
        self.client = ExampleClient(services, "school")
        self.owner = Person(self, self.client.email("owner"))
        self.clerk = Person(self, self.client.email("developer"))
        self.ann, self.bob = (self._operator(name) for name in ("ann", "bob"))
        self.bank: dict[str, int] = {}
        """What the bank paid, by its references."""
        self.received: dict[str, list[str]] = {}
        """The messages that each phone received."""
        (paths,) = (each for each in services.notices.paths(_OPERATOR) if each.account == "mtn")
        (self._reports,) = services.sms_reports.paths(_OPERATOR)
        self._http = httpx2.Client(transport=httpx2.WSGITransport(app=app))
        self.till = Till(f"http://service{paths.path}", paths.secret, self._http, clock.now)
        self.phones = app.test_client()
        self.gateway = services.channels.create(CreateChannel("africastalking", self.client.id), _OPERATOR).gateway_path

    def at(self, day: int, time: str = "08:00") -> None:
        """Let the days pass until this moment in Kampala; 31 is the day after the month."""
        hour, minute = map(int, time.split(":"))
        first = datetime(FIRST.year, FIRST.month, FIRST.day, tzinfo=KAMPALA)
        then = first + timedelta(days=day - 1, hours=hour, minutes=minute)
        self.clock.advance((then - self.clock.now()).total_seconds())
        self.work()

    def work(self) -> None:
        """What the worker does within a minute."""
        for _ in range(2):
            self._follow()
            for claim, advance in (
                (self.services.payout_sender.claim, self.services.payout_sender.advance),
                (self.services.processing.claim, self.services.processing.advance),
                (self.services.sms_sending.claim, self.services.sms_sending.send),
            ):
                while claimed := claim(50):
                    for each in claimed:
                        advance(each)
            self.clock.advance(20)
        while self.sms.sent:
            sent = self.sms.sent.pop(0)
            self.received.setdefault(sent["to"], []).append(sent["message"])
            report = {"id": sent["id"], "status": "Success", "phoneNumber": sent["to"]}
            assert self.phones.post(self._reports.path, data=report).status_code == 200

    # The payers

    def pay_at_till(
        self, code: str, shillings: int, phone_number: str, *, is_reported: bool = True, reported_after: int = 0
    ) -> Reply | None:
        """A payer pays at the till of the provider, who books it, and reports it some seconds later."""
        receipt = self._book("requesttopay", shillings, phone_number)
        self.clock.advance(reported_after)
        payment = Payment(receipt, code, shillings, phone_number, paid_ago=timedelta(seconds=reported_after))
        return self.till.play("", payment) if is_reported else None

    def give_back(self, shillings: int, phone_number: str) -> None:
        """The operator gives a payment back in the portal of the provider."""
        self._book("refund", shillings, phone_number)

    def dial(self, phone_number: str, *entries: str) -> str:
        """Dial the school's code and type; the last screen."""
        session = {"sessionId": new_id(self.clock.now()), "phoneNumber": phone_number, "serviceCode": CODE}
        for count in range(len(entries) + 1):
            step = session | {"networkCode": "64110", "text": "*".join(entries[:count])}
            answer = self.phones.post(self.gateway, data=step)
            assert answer.status_code == 200
            self.clock.advance(5)
        return answer.text

    # The provider and the bank

    def statement(self, day: int) -> io.BytesIO:
        """The statement of a day, as the provider's portal gives it."""
        return io.BytesIO(self.mtn.statement(StatementForm(), f"{FIRST.year}-{FIRST.month:02}-{day:02}"))

    def pay_out(self, due: list[dict[str, str]]) -> io.BytesIO:
        """The bank pays what a file says, and completes the file with its references."""
        for line in due:
            line["bank_reference"] = f"FT{len(self.bank) + 1:04}"
            self.bank[line["bank_reference"]] = int(line["amount"].replace(",", ""))
        text = io.StringIO()
        written = csv.DictWriter(text, due[0])
        written.writeheader()
        written.writerows(due)
        return io.BytesIO(text.getvalue().encode())

    def _book(self, kind: str, shillings: int, phone_number: str) -> str:
        """Write what the provider moved without a request of ours into its book; the receipt."""
        now, receipt = self.clock.now().timestamp(), f"T{self.mtn.book.next_number():06}"
        step = BookedStep(now, self.mtn.final_statuses[0])
        payment = BookedPayment(
            reference=receipt, kind=kind, amount_cents=shillings * 100, party=phone_number.removeprefix("+"),
            currency="UGX", receipt=receipt, accepted_at=now, steps=(step,), paid_at=now,
        )  # fmt: skip
        assert self.mtn.book.insert(payment)
        return receipt

    def _operator(self, name: str) -> Person:
        factor = self.services.operators.create(CreateOperator(f"{name}@ops.example", PASSWORD), _OPERATOR)
        return Person(self, factor.operator.email, factor.secret)

    def _follow(self) -> None:
        """Set the clock of the provider by ours."""
        self.mtn.advance(self.clock.now().timestamp() - self.mtn.clock.now())


@contextmanager
def school(settings: Settings, clock: MovableClock) -> Iterator[School]:
    """The school, while the block lasts."""
    user, key = "9f0f1a53-37c3-4b30-8c5d-2b1f2a9f6a11", "an-api-key"
    mtn, sms = MtnMomo(MtnSettings("mtnuganda", "UGX", api_user=user, api_key=key)), AfricasTalkingSms()
    products = {name: MtnProduct(f"{name}-key", user, key) for name in ("collection", "disbursement")}
    with run(mtn) as mtn_url, serving(sms.application()) as sms_url:
        access = MtnAccess(mtn_url, "mtnuganda", **products, kind="mtn")
        # A pace is counted by a clock that no test sets.
        access = replace(access, schedule=replace(access.schedule, per_second=10_000.0))
        sender = SmsAccess("africastalking", sms_url, sms.username, sms.api_key, "SCHOOL")
        with connect(settings.redis_url, timeout_seconds=5) as redis:
            redis.flushdb()
        services = build_services(replace(settings, providers={"mtn": access}, sms=sender), clock)
        app = create_app(services)
        try:
            yield School(services, clock, app, mtn, sms)
        finally:
            services.close()
            close_connections()
