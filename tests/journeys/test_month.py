"""A month of a school: fees, refunds, salaries, settlements and thirty closed days, which agree to the shilling.

Four people play it at the console: the clerk and the owner of the school, and two operators.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from datetime import date

import pytest

from tests.conftest import MovableClock
from tests.support.books import check_everything
from tests.support.money import agree_fee
from tests.support.school import CODE, FIRST, School, school
from ussd_server.context import operator_context
from ussd_server.services.accounts.messages import FeeTerms
from ussd_server.services.bank.messages import SetSettlementTerms
from ussd_server.services.incoming.messages import SetPrefix
from ussd_server.services.transactions.messages import TransactionType
from ussd_server.settings import Settings

ACHIENG, BABIRYE, CHANDIRU, DDUMBA = (f"+25677200000{digit}" for digit in range(1, 5))
MENU = """
id: fees
title: School
start: root
languages: [en, lg]
default_language: en
fallback: true
vars:
  amount: {type: amount}
nodes:
  root:
    type: menu
    text: {en: Kizito School, lg: Essomero Kizito}
    options:
      - {label: {en: Pay fees, lg: Sasula}, goto: amount}
      - {label: {en: Language, lg: Olulimi}, goto: language}
  language: {type: language, goto: root}
  amount:
    type: input
    text: {en: Enter amount (UGX), lg: Wandiika omuwendo}
    var: amount
    validate: [{rule: amount, min: 500, max: 999999}]
    goto: sure
  sure:
    type: confirm
    text: {en: "Pay UGX {{vars.amount|ugx}}?", lg: "Sasula UGX {{vars.amount|ugx}}?"}
    yes: pay
    no: root
  pay:
    type: pay
    kind: collection
    amount: vars.amount
    phone_number: session.phone_number
    accepted: {end: {en: Approve it on your phone., lg: Kakasa ku ssimu yo.}}
    rejected: {end: {en: It did not work., lg: Tekisobose.}}
"""


@pytest.fixture
def month(settings: Settings, clock: MovableClock) -> Iterator[School]:
    with school(settings, clock) as opened:
        yield opened


def test_a_month_agrees_to_the_shilling(month: School) -> None:
    open_school(month)
    happenings = {
        1: receipts_in_two_languages,
        4: mistyped_codes,
        6: an_answer_by_telephone,
        7: a_payment_for_another,
        10: a_payment_without_a_notice,
        11: found_in_the_statement,
        12: a_double_payment,
        13: a_refund_at_the_till,
        14: a_payment_at_midnight,
        15: a_settlement,
        20: salaries_are_planned,
        28: salaries_are_paid,
        30: a_last_settlement,
    }
    for day in range(1, 31):
        month.at(day, "08:00")
        if day > 1:
            close_day(month, day - 1)
        if date(FIRST.year, FIRST.month, day).weekday() < 5:
            month.pay_at_till("SCH101", 1_000 * day, ACHIENG)
        if day in happenings:
            happenings[day](month)
    month.at(31, "08:00")
    close_day(month, 30)
    agree(month)


def open_school(m: School) -> None:
    """The operator agrees with the school; the owner and the clerk make what they need."""
    m.services.payment_codes.set_prefix(SetPrefix(m.client.id, "SCH"), operator_context())
    m.services.bank_accounts.set_terms(SetSettlementTerms(m.client.id, 600_000_00, None), operator_context())
    agree_fee(FeeTerms(m.client.id, TransactionType.COLLECTION, 0, 100))
    m.ann.send(f"/operator/clients/{m.client.id}/codes", service_code=CODE)
    menu = m.clerk.send("/menus/new", menu_id="fees", text=MENU)
    draft = re.search(r'name="draft_saved_at" value="([^"]+)"', m.clerk.open(f"{menu}/versions/draft"))
    assert draft
    m.clerk.send(f"{menu}/publish", draft_saved_at=draft[1])
    m.clerk.send(f"{menu}/codes", service_code=CODE)
    texts = ["School got UGX {{amount|ugx}}", "Essomero lifunye UGX {{amount|ugx}}"]
    m.owner.send("/messages/receipts", **{"collection.language": ["en", "lg"], "collection.text": texts})
    for code in ("SCH101", "SCH102", "SCH103"):
        m.clerk.send("/payment-codes/new", code=code, description=f"Fees of {code}")
    m.owner.send("/bank-account", bank="Stanbic Bank", number="9030001234567", name="Kizito School")
    assert "1 bank account</a> to confirm" in m.ann.open("/operator")
    digest = re.search(r'name="digest" value="([^"]+)"', m.ann.open("/operator/settlements"))
    assert digest
    m.ann.send(f"/operator/settlements/{m.client.id}/confirm", digest=digest[1])


def close_day(m: School, day: int) -> None:
    """Ann compares the statement of a day, ends its differences and closes it."""
    covered = f"{FIRST:%Y-%m}-{day:02}"
    page = f"/operator/days/mtn/{covered}"
    statement = m.statement(day)
    fields = {}
    if b"Total lines,0" in statement.getvalue():
        assert "Its statement is empty" in m.ann.open(page)
        fields = {"is_empty": "yes"}
    else:
        file = {"account": "mtn", "file": (statement, f"{day}.csv"), "is_confirmed": "yes"}
        imported = m.ann.send("/operator/reconciliation/new", **file)
        cover = f"/operator/propose/statement.cover/{imported.rpartition('/')[2]}"
        m.ann.send(cover, covers_from=covered, covers_to=covered, reason="The portal's file of the day")
        m.bob.confirm()
        for each in m.ann.rows(imported):
            if each["review"] == "open":
                m.ann.send(f"/operator/differences/{each['difference_id']}/end", reason="Asked MTN")
    shown = m.ann.open(page)
    if "Propose to close it" in shown:
        m.ann.send(f"{page}/propose", reason="It came later")
        assert "Dated around midnight" in shown or "Late change" in shown or "Held" in shown
        m.bob.confirm()
    else:
        sums = re.search(r'name="shown" value="([^"]*)"', shown)
        m.ann.send(f"{page}/close", shown=sums[1] if sums else "", **fields)


def receipts_in_two_languages(m: School) -> None:
    m.dial(BABIRYE, "2", "2")
    assert "Kakasa" in m.dial(BABIRYE, "1", "40000", "1")
    m.pay_at_till("sch-102", 150_000, CHANDIRU)
    m.work()
    assert m.received[BABIRYE] == ["Essomero lifunye UGX 40,000"]
    assert m.received[CHANDIRU] == ["School got UGX 150,000"]


def mistyped_codes(m: School) -> None:
    m.pay_at_till("SCHl02", 120_000, BABIRYE)
    m.pay_at_till("SHC13", 90_000, CHANDIRU)
    assert "2 movements</a>" in m.ann.open("/operator")
    held = held_payment(m, 120_000)
    assert held["suggestions"] == "SCH102"
    assign(m, held, "SCH102")


def an_answer_by_telephone(m: School) -> None:
    assign(m, held_payment(m, 90_000), "SCH103")


def a_payment_for_another(m: School) -> None:
    m.pay_at_till("RENT", 75_000, DDUMBA)
    held = held_payment(m, 75_000)["movement_id"]
    m.ann.send(f"/operator/propose/movement.return/{held}", reason="It was for a landlord")
    assert "to be given back" in m.bob.confirm()
    m.at(8, "07:00")
    m.give_back(75_000, DDUMBA)


def a_payment_without_a_notice(m: School) -> None:
    m.pay_at_till("SCH103", 80_000, CHANDIRU, is_reported=False)


def found_in_the_statement(m: School) -> None:
    assign(m, held_payment(m, 80_000), "SCH103")


def a_double_payment(m: School) -> None:
    m.dial(BABIRYE, "1", "25000", "1")
    m.work()
    assert "Okusasula kwo okwa UGX 25,000" in m.dial(BABIRYE)
    m.dial(BABIRYE, "0", "1", "25000", "1")
    m.work()
    page = m.clerk.open(f"/subscribers/{BABIRYE}")
    assert page.count("possible double") == 2
    assert "a fee" not in page, "the payer is told nothing of the school's fee"
    double, _ = (each for each in m.owner.rows(f"/transactions?phone_number={BABIRYE}") if each["amount"] == 25_000)
    refund(m, double["transaction_id"], reason="Paid twice")


def a_refund_at_the_till(m: School) -> None:
    reply = m.pay_at_till("SCH102", 200_000, BABIRYE)
    assert reply
    refund(m, str(reply.transaction_id), amount="50,000", reason="Paid too much")


def a_payment_at_midnight(m: School) -> None:
    m.at(14, "23:58")
    m.pay_at_till("SCH103", 60_000, CHANDIRU, reported_after=300)


def a_settlement(m: School) -> None:
    reserved = m.ann.send("/operator/settlements/reserve").partition("?")[2]
    due = m.ann.file(f"/operator/settlements/waiting.csv?{reserved}")
    m.ann.send("/operator/settlements/file", file=(m.pay_out(due), "due.csv"))
    assert m.client.name in m.bob.confirm()


def a_last_settlement(m: School) -> None:
    m.services.bank_accounts.set_terms(SetSettlementTerms(m.client.id, 50_000_00, None), operator_context())
    a_settlement(m)


def salaries_are_planned(m: School) -> None:
    rows = "".join(f"077210000{n},{100_000 + n},S-{n},Teacher {n}\n" for n in range(4))
    file = f"phone_number,amount,reference,name\n{rows}0772,5000,S-9,Cook\n"
    upload = {"reference": "NOV", "send_at": "2030-11-28T09:00", "file": (io.BytesIO(file.encode()), "november.csv")}
    draft = m.clerk.send("/payouts/new", **upload)
    corrected = io.BytesIO(file.replace("0772,5", "0772100009,5").encode())
    draft = m.clerk.send(f"{draft}/correct", file=(corrected, "november.csv"))
    assert "Its money is reserved" in m.owner.open(m.owner.send(f"{draft}/approve", total_fee="0.00"))


def salaries_are_paid(m: School) -> None:
    m.at(28, "09:05")
    m.work()
    (payout,) = m.clerk.rows("/payouts")
    assert (payout["status"], payout["succeeded_count"]) == ("completed", 5)


def agree(m: School) -> None:
    """The statement of the school, the book of the provider, the list of the bank, the days and `check` agree."""
    opening, *lines, closing = m.owner.file(f"/statements/file.csv?from={FIRST}&to={FIRST:%Y-%m}-30")
    moved = Counter[str]()
    for line in lines:
        moved[line["kind"]] += int(line["credit"] or 0) - int(line["debit"] or 0)
    assert int(closing["balance"]) - int(opening["balance"]) == moved.total() == 50_000
    assert {each["bank_reference"]: each["amount"] for each in m.ann.rows("/operator/settlements")} == m.bank
    assert moved["settlement"] == -sum(m.bank.values())
    of_provider = m.mtn.book.paid_cents(("requesttopay",)) - m.mtn.book.paid_cents(m.mtn.payout_kinds)
    at_provider = moved["collection"] + moved["disbursement"] + moved["refund"]
    days = [each.closed for each in m.services.days.list(operator_context()) if each.account == "mtn" and each.closed]
    sums = [sum(day.ours_cents for day in days), sum(day.theirs_cents for day in days)]
    assert [len(days), *sums] == [30, of_provider, of_provider]
    assert at_provider * 100 == of_provider
    assert sum(step.amount_cents for day in days for step in day.bridge) == 0
    assert check_everything() == []


def held_payment(m: School, shillings: int) -> dict[str, str]:
    (found,) = (each for each in m.ann.rows("/operator/movements") if each["amount"] == shillings)
    return found


def assign(m: School, held: dict[str, str], code: str) -> None:
    m.ann.send(f"/operator/propose/movement.assign/{held['movement_id']}", code=code)
    assert f"booked for {code}" in m.bob.confirm()


def refund(m: School, transaction_id: str, **given: str) -> None:
    made = m.owner.send(f"/transactions/{transaction_id}/refund", reference=f"back-{transaction_id[:13]}", **given)
    m.work()
    assert "reached the payer" in m.owner.open(made)
