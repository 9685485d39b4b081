"""Random days at the stand-ins: their statements differ from our books in exactly what was injected."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
from openpyxl import load_workbook

from simulators.airtel import AirtelMoney, AirtelSettings
from simulators.layouts import AIRTEL_LAYOUTS, MTN_LAYOUTS
from simulators.mtn import MtnMomo, MtnSettings
from simulators.server import run
from simulators.standin import StandIn
from simulators.statements import ENCODINGS, SEPARATORS, StatementForm, write_rows
from tests.conftest import MovableClock
from tests.services.reconciliation.statement_files import reconcile
from tests.support.books import check_everything
from tests.support.money import a_client, deposit, request
from ussd_server.bootstrap import Services, build_services
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import close_connections
from ussd_server.models.transactions import Transaction
from ussd_server.providers.airtel.access import AirtelAccess
from ussd_server.providers.messages import Direction
from ussd_server.providers.mtn.adapter import MtnAccess, MtnProduct
from ussd_server.providers.statement_format import DateOrder
from ussd_server.services.reconciliation.messages import ComparedLine, Reconciliation, StatementReading
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.settings import Settings

FAILED = {"mtn": "Failed", "airtel": "Transaction Failed"}
USER = "9f0f1a53-37c3-4b30-8c5d-2b1f2a9f6a11"
NUMBERS = {"mtn": "+256772123456", "airtel": "+256752123456"}
# What may go wrong with a payment, as switches of the stand-in.
TROUBLES: dict[str, dict[str, object]] = {
    "none": {},
    "answer lost": {"html_error": True, "calls": ["submit"], "times": 1},
    "never received": {"html_error": True, "carried_out": False, "calls": ["submit"], "times": 1},
    "late success": {"success_after_failure": True},
    "never approved": {"approve_delay_seconds": 400.0},
}
FORMS = (
    StatementForm(encoding="utf-16", separator="tab", dates="day-first"),
    StatementForm(encoding="utf-8-bom", separator="semicolon", dates="month-first"),
    StatementForm(dates="minutes"),
    StatementForm(file="xlsx"),
)
# Layouts of other exports, each with its own way to say what came in and what went out.
LAYOUTS = {"mtn": MTN_LAYOUTS, "airtel": AIRTEL_LAYOUTS}


@dataclass
class Day:
    services: Services
    clock: MovableClock
    stand_in: StandIn
    provider: str
    call: RequestContext
    count: int = 0

    def pay(self, kind: str, trouble: str) -> str:
        """One payment, until neither the provider nor the worker will change it."""
        self.count += 1
        self.make(trouble)
        asked = request(kind, NUMBERS[self.provider], 5000 + self.count, reference=f"{kind} {self.count}")
        made = self.services.transactions.create(replace(asked, provider=self.provider), self.call)
        self.work(2)
        self.stand_in.switches.restore()
        return self.settle(made.transaction.transaction_id)

    def make(self, trouble: str) -> None:
        """Give the next payment this trouble, after the expired tokens were renewed without it."""
        adapter = self.services.runtime.providers.get(self.provider)
        for direction in Direction:
            adapter.balance_cents(direction, 5)
        self.stand_in.switches.change(TROUBLES[trouble])

    def refund(self, transaction_id: str) -> None:
        asked = CreateRefund(transaction_id, f"back {transaction_id}")
        self.settle(self.services.refunds.create(asked, self.call).transaction.transaction_id)

    def settle(self, transaction_id: str) -> str:
        for _ in range(100):
            row = Transaction.get_by_id(transaction_id)
            if row.completed_at is not None and row.due_at is None:
                return transaction_id
            self.work(600, step=120)
        raise AssertionError(f"{transaction_id} is not final")

    def work(self, seconds: float, step: float = 1) -> None:
        """Let time pass for the worker and the stand-in."""
        processor, passed = self.services.processing, 0.0
        while passed < seconds:
            for transaction_id in processor.claim(100):
                processor.advance(transaction_id)
            self.clock.advance(step)
            self.stand_in.advance(step)
            passed += step

    def differences(self, content: bytes, form: StatementForm) -> list[ComparedLine]:
        return list(self.result(content, form).differences())

    def result(self, content: bytes, form: StatementForm) -> Reconciliation:
        order = DateOrder.MONTH_FIRST if form.dates == "month-first" else DateOrder.DAY_FIRST
        return reconcile(self.services, content, self.provider, reading=StatementReading(order))


@pytest.fixture(params=["mtn", "airtel"])
def day(request: pytest.FixtureRequest, settings: Settings, clock: MovableClock) -> Iterator[Day]:
    stand_in: StandIn = (
        MtnMomo(MtnSettings("mtnuganda", "UGX", api_user=USER, api_key="an-api-key"))
        if request.param == "mtn"
        else AirtelMoney(AirtelSettings())
    )
    with run(stand_in) as base_url:
        products = {name: MtnProduct(f"{name}-key", USER, "an-api-key") for name in ("collection", "disbursement")}
        access = {
            "mtn": lambda: MtnAccess(base_url, "mtnuganda", **products, kind="mtn"),
            "airtel": lambda: AirtelAccess(base_url, "airtel-client", "airtel-secret", pin="1234", kind="airtel"),
        }[request.param]()
        # A pace is counted by a clock that no test sets.
        access = replace(access, schedule=replace(access.schedule, per_second=10_000.0))
        services = build_services(replace(settings, providers={request.param: access}), clock)
        call = a_client()
        deposit(services, call, 900_000)
        yield Day(services, clock, stand_in, request.param, call)
        services.close()
        close_connections()


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_random_day_differs_in_exactly_what_was_injected(day: Day) -> None:
    for seed in range(2):
        chance = random.Random(seed)
        troubles = [*TROUBLES, *chance.choices(list(TROUBLES), k=3)]
        chance.shuffle(troubles)
        for trouble in troubles:
            day.pay(chance.choice(["collection", "disbursement"]), trouble)
        day.refund(day.pay("collection", "answer lost"))
        day.pay("collection", "none")
        for form in FORMS:
            assert day.differences(day.stand_in.statement(form), form) == [], (seed, form)
        for layout in LAYOUTS[day.provider]:
            form = StatementForm(layout=layout)
            assert day.differences(day.stand_in.statement(form), form) == [], (seed, layout)

        for form in FORMS:
            content, expected = _with_injected_differences(day, chance, form)
            found = day.differences(content, form)
            assert sorted((each.verdict.value, each.reference) for each in found) == sorted(expected), (seed, form)
    assert check_everything() == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_payment_that_is_silent_when_the_day_is_closed_differs_until_the_provider_answers(day: Day) -> None:
    day.pay("collection", "none")
    day.make("answer lost")
    made = day.services.transactions.create(
        request("collection", NUMBERS[day.provider], 7000, provider=day.provider), day.call
    )
    day.work(1)
    (silent,) = day.differences(day.stand_in.statement(StatementForm()), StatementForm())
    assert (silent.verdict, silent.ours, silent.theirs) == ("status_differs", "ambiguous", "succeeded")
    assert silent.transaction_id == made.transaction.transaction_id
    day.work(1200, step=60)
    assert day.differences(day.stand_in.statement(StatementForm()), StatementForm()) == []


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_the_sums_follow_money_that_the_provider_takes_back_in_every_form(day: Day) -> None:
    paid = {kind: day.pay(kind, "none") for kind in ("collection", "disbursement")}
    day.refund(day.pay("collection", "none"))
    day.pay("collection", "none")
    for form in FORMS:
        holder, headings, lines = _read(day.stand_in.statement(form), form)
        before = day.result(_written(holder, headings, lines, form), form).statement
        assert before.ours_cents == before.theirs_cents
        kind = headings.index("Type" if day.provider == "mtn" else "Service Type")
        for name, transaction_id in paid.items():
            payment = Transaction.get_by_id(transaction_id)
            (line,) = [each for each in lines if (payment.sent_reference or payment.provider_reference) in each]
            back = [*line]
            back[0], back[kind] = f"back {name}", "Reversal"
            if day.provider == "airtel":
                credit, debit = headings.index("Credit"), headings.index("Debit")
                back[credit], back[debit] = line[debit], line[credit]
            sign = -1 if name == "collection" else 1
            result = day.result(_written(holder, headings, [*lines, back], form), form)
            (difference,) = result.differences()
            assert (difference.verdict, difference.theirs) == ("reversal", sign * payment.amount_cents)
            after = result.statement
            assert after.ours_cents == before.ours_cents
            assert after.theirs_cents - before.theirs_cents == sign * payment.amount_cents


def _with_injected_differences(
    day: Day, chance: random.Random, form: StatementForm
) -> tuple[bytes, list[tuple[str, str | None]]]:
    """The statement with lines removed, changed and added, and the differences that must be found."""
    holder, headings, lines = _read(day.stand_in.statement(form), form)
    kind = headings.index("Type" if day.provider == "mtn" else "Service Type")
    status = headings.index("Status" if day.provider == "mtn" else "Transaction Status")
    amounts = [headings.index(name) for name in (("Amount",) if day.provider == "mtn" else ("Credit", "Debit"))]
    # The first and the last line stay: they are the ends of the period.
    usable = [line for line in lines[1:-1] if "Success" in line[status] and "Reversal" not in line[kind]]
    refunded = {row.provider_reference for row in Transaction.select().where(Transaction.status == "reversed")}
    chosen = chance.sample([line for line in usable if line[1] not in refunded], 5)
    removed, dearer, failed, reversed_, doubled = chosen
    foreign, again, back, attempt = [*doubled], [*doubled], [*reversed_], [*doubled]
    foreign[0], foreign[1] = f"foreign {chance.random()}", f"theirs {chance.random()}"
    # They paid twice under our name.
    again[0] = f"again {chance.random()}"
    # Their first attempt failed.
    attempt[0], attempt[status] = f"attempt {chance.random()}", FAILED[day.provider]
    # They gave a payment back without being asked to.
    back[kind] = "Reversal"
    amount = next(place for place in amounts if dearer[place])
    dearer[amount] = "999,999.00"
    failed[status] = FAILED[day.provider]
    lines.remove(removed)
    # The doubled line is there twice, and the failed attempt before and after it.
    lines[-1:-1] = [foreign, again, back, [*doubled], attempt]
    lines.insert(1, attempt)
    return _written(holder, headings, lines, form), [
        ("not_theirs", removed[1]),
        ("amount_differs", dearer[1]),
        ("status_differs", failed[1]),
        ("not_ours", foreign[1]),
        ("not_ours", again[1]),
        ("not_ours", again[1]),
        ("reversal", back[1]),
    ]


def _written(holder: str, headings: list[str], lines: list[list[str]], form: StatementForm) -> bytes:
    """A statement of these lines."""
    return write_rows([["Account holder", holder], [], headings, *lines, ["Total lines", str(len(lines))]], form)


def _read(content: bytes, form: StatementForm) -> tuple[str, list[str], list[list[str]]]:
    """The holder, the headings and the lines of a statement."""
    if form.file == "xlsx":
        (sheet,) = load_workbook(io.BytesIO(content), read_only=True).worksheets
        rows = [[str(cell or "") for cell in row] for row in sheet.iter_rows(values_only=True)]
    else:
        text = io.StringIO(content.decode(ENCODINGS[form.encoding]), newline="")
        rows = list(csv.reader(text, delimiter=SEPARATORS[form.separator]))
    (_, holder, *_), _, headings, *lines, _ = rows
    return holder, headings, lines
