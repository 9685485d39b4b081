"""Held payments: suggested, never assumed; assigned or returned by two operators; made from statements once.

A payment may be booked long after it was paid, which statements must allow for.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.conftest import MovableClock
from tests.services.incoming.till import BY, PAYER, SECOND, Till
from tests.services.reconciliation.statement_files import kampala, mtn_row, open_reviews, reconcile
from tests.support.books import check_everything
from tests.support.example_client import ExampleClient
from tests.support.money import balances, operator, request, work
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.movements import Movement
from ussd_server.models.sending import Mail
from ussd_server.models.transactions import Transaction
from ussd_server.services.audit.messages import ListAuditEvents, ListOperatorActions
from ussd_server.services.incoming.messages import PutPaymentCode
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.movements.messages import (
    AssignMovement,
    EndMovement,
    ListMovements,
    MovementView,
    SameMovement,
)
from ussd_server.services.operators.messages import CreateOperator
from ussd_server.services.transactions.messages import CreateRefund
from ussd_server.status import Code, ServiceError


def held(services: Services) -> tuple[MovementView, ...]:
    return services.movements.list(ListMovements(is_held=True), operator()).items


def assign(services: Services, payment: MovementView, code: str, by: str = BY, second: str = SECOND) -> MovementView:
    return services.movement_uses.assign(AssignMovement(payment.movement_id, code, by, second), operator())


def return_(services: Services, payment: MovementView) -> MovementView:
    return services.movement_uses.mark_returned(
        EndMovement(payment.movement_id, "The payer asked for it", BY, SECOND), operator()
    )


def not_ours(
    services: Services, amount: str = "7,000.00", dated: str = "2026-11-20 08:15:00", receipt: str = "S1"
) -> MovementView:
    """What a line of MTN's statement moved: money from a payer that no notice reported."""
    line = [receipt, "", dated, "Successful", "Payment", "FRI:256772123456/MSISDN", "FRI:41000001/MM"]
    reconcile(services, [[*line, amount, "UGX", "0", "1,000,000"]], "mtn")
    return held(services)[0]


def test_codes_with_one_other_letter_are_suggested_those_that_take_the_amount_first(
    services: Services, school: ExampleClient, till: Till
) -> None:
    codes, context = services.payment_codes, operator_context(school.id)
    for code, cents in (("SCH1043", 1), ("SCH1044", 5000_00), ("SCH1045", 1), ("SCH2055", None)):
        codes.put(PutPaymentCode(code, "Fees", amount_cents=cents), context)
    till.pay("sch-104O")
    assert held(services)[0].suggestions == ("SCH1042", "SCH1044", "SCH1043")
    till.pay("SCH1045", receipt="other amount")
    assert held(services)[0].suggestions[0] == "SCH1045", "the code that was typed is the first"
    till.pay("thank you", receipt="no code")
    assert held(services)[0].suggestions == ()
    assert "main" not in balances(school.id)


def test_two_operators_assign_a_payment_whatever_its_code_takes(
    services: Services, school: ExampleClient, till: Till
) -> None:
    services.payment_codes.put(PutPaymentCode("SCH1", "Fees", amount_cents=1), operator_context(school.id))
    till.pay("SCHI")
    (payment,) = held(services)
    for by, second in ((BY, BY), (BY, "")):
        with pytest.raises(ServiceError, match="Two different people"):
            assign(services, payment, "SCH1", by, second)
    with pytest.raises(ServiceError) as refused:
        assign(services, payment, "SCH99")
    assert refused.value.code is Code.NOT_FOUND
    use = assign(services, payment, "sch 1").use
    assert use is not None
    assert (use.kind, use.by, use.and_) == ("payment", BY, SECOND)
    row = Transaction.get_by_id(use.transaction_id)
    assert (row.client_id, row.reference, row.origin, row.amount_cents) == (school.id, "in/R1", "payer", 5000_00)
    trail = services.audit.list(ListAuditEvents(action="transaction.assigned"), school.at_console()).items
    assert [(event.amount_cents, event.phone_number) for event in trail] == [(5000_00, PAYER)]
    for act in (lambda: assign(services, payment, "SCH1"), lambda: return_(services, payment)):
        with pytest.raises(ServiceError, match="is booked, no longer held"):
            act()
    assert till.pay("SCH1").transaction_id == row.id
    assert check_everything(vault=services.runtime.vault) == []


def test_one_person_marks_no_payment_for_return(services: Services, school: ExampleClient, till: Till) -> None:
    till.pay("SCHI042")
    (payment,) = held(services)
    for by, second, reason in ((BY, BY, "asked"), (BY, "", "asked"), (BY, SECOND, " ")):
        with pytest.raises(ServiceError):
            services.movement_uses.mark_returned(EndMovement(payment.movement_id, reason, by, second), operator())
    assert held(services) == (payment,)


@pytest.mark.parametrize("typed", ["SCH104", "SCH10442", "SCH1402", "CSH1042", "SCH10042", "SCH1O42"])
def test_a_code_is_suggested_for_one_slip(services: Services, school: ExampleClient, till: Till, typed: str) -> None:
    till.pay(typed)
    assert held(services)[0].suggestions == ("SCH1042",)


@pytest.mark.parametrize("typed", ["SCH10", "HCS1042", "SCH104299", "SCH2043"])
def test_a_code_is_not_suggested_for_two_slips(
    services: Services, school: ExampleClient, till: Till, typed: str
) -> None:
    till.pay(typed)
    assert held(services)[0].suggestions == ()


def test_a_returned_payment_is_never_booked(
    services: Services, school: ExampleClient, till: Till, clock: MovableClock
) -> None:
    till.pay("SCHI042")
    (payment,) = held(services)
    clock.advance(60)
    use = return_(services, payment).use
    assert use is not None
    assert use.kind == "returned"
    (event,) = services.audit.list_of_operators(ListOperatorActions(action="movement.returned"), operator()).items
    assert event.created_at >= payment.created_at + timedelta(seconds=60)
    assert [each.state for each in held(services)] == ["to be given back"]
    with pytest.raises(ServiceError, match="is to be given back, no longer held"):
        assign(services, payment, "SCH1042")
    assert till.pay("SCH1042").status == "held"
    assert "main" not in balances(school.id)
    assert check_everything(vault=services.runtime.vault) == []


@pytest.mark.parametrize("is_own", [False, True])
def test_a_returned_or_own_movement_that_is_told_with_another_amount_says_so_at_once(
    services: Services, school: ExampleClient, till: Till, is_own: bool
) -> None:
    till.pay("SCHI042")
    (payment,) = held(services)
    end = services.movement_uses.take_as_own if is_own else services.movement_uses.mark_returned
    end(EndMovement(payment.movement_id, "Known", BY, SECOND), operator())
    for _ in range(2):
        assert till.pay("SCHI042", 6000).status == "held"
    shown = services.movements.show(payment.movement_id, operator())
    assert (shown.other_amount_cents, shown.held_because) == (6000_00, None)
    events = services.audit.list_of_operators(ListOperatorActions(action="incoming.held"), operator()).items
    assert [event.reason for event in events] == ["It was told with two amounts", "This code is not known"]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_a_client_sees_the_held_payments_whose_code_is_like_its_own(
    services: Services, school: ExampleClient, till: Till
) -> None:
    for typed in ("SCH104", "SCH9", "SCX1042", "TEA1042", ""):
        till.pay(typed, receipt=typed or "none")
    alike = services.movements.list_alike(operator_context(school.id))
    assert [(each.code, each.meant) for each in alike] == [
        ("SCX1042", ("SCH1042",)),
        ("SCH9", ()),
        ("SCH104", ("SCH1042",)),
    ]
    assert services.movements.list_alike(operator_context(ExampleClient(services, "tea").id)) == ()


def test_what_a_line_moved_and_belongs_to_nothing_is_held_at_once_whatever_file_has_it(
    services: Services, school: ExampleClient
) -> None:
    payment = not_ours(services)
    assert (payment.use, payment.amount_cents, payment.phone_number) == (None, 7000_00, PAYER)
    assert (payment.account, payment.receipts, payment.code) == ("mtn", ("S1",), None)
    assert payment.at is not None
    assert (payment.at.hour, payment.line and payment.line.line) == (5, 4)
    assert open_reviews(services) == ()
    not_ours(services)
    assert held(services) == (payment,)
    assert assign(services, payment, "SCH1042").use is not None
    assert balances(school.id)["main"] == (7000_00, 0)
    assert check_everything() == []


def test_a_later_notice_books_what_was_held_from_a_statement(
    services: Services, school: ExampleClient, till: Till, clock: MovableClock
) -> None:
    not_ours(services, dated=kampala(clock.now()))
    assert till.pay("SCH1042", 7000, "S1", provider="mtn").status == "booked"
    assert held(services) == ()
    assert balances(school.id)["main"] == (7000_00, 0)


def test_what_a_line_moved_counts_where_the_till_reported_another_amount(
    services: Services, school: ExampleClient, till: Till
) -> None:
    till.pay("unknown", 5000, "S1", provider="mtn")
    moved, told = not_ours(services), held(services)[-1]
    assert (moved.amount_cents, told.amount_cents, told.other_amount_cents) == (7000_00, 5000_00, 7000_00)
    assert told.held_because == "It was told with two amounts"
    same = SameMovement(told.movement_id, BY, SECOND, moved.movement_id)
    assert services.movement_uses.take_as_same(same, operator()).same_as == moved.movement_id
    (one,) = held(services)
    assert (one.amount_cents, one.receipts) == (7000_00, ("S1",))


def test_money_that_left_is_held_and_has_no_payment_code(services: Services, school: ExampleClient) -> None:
    movement = not_ours(services, "-7,000.00")
    assert (movement.direction, movement.amount_cents) == ("out", 7000_00)
    with pytest.raises(ServiceError, match="Only money that came in"):
        assign(services, movement, "SCH1042")


def test_a_payment_without_a_number_is_not_refunded_by_guess(
    services: Services, school: ExampleClient, till: Till
) -> None:
    till.pay("SCHI042")
    Movement.update(phone_number=None).execute()
    use = assign(services, held(services)[0], "SCH1042").use
    assert use is not None
    with pytest.raises(ServiceError, match="number is not known"):
        services.refunds.create(CreateRefund(use.transaction_id or "", "back"), operator_context(school.id))


def test_a_notice_before_the_success_of_a_payment_that_was_asked_for_leaves_the_list_with_it(
    services: Services, school: ExampleClient, till: Till, clock: MovableClock
) -> None:
    made = services.transactions.create(request(), operator_context(school.id)).transaction
    early = f"SBX{str(made.provider_reference).replace('-', '')[:12].upper()}"
    till.pay("", receipt=f"sbx-{early[3:]}")
    (payment,) = held(services)
    work(services, clock, 2)
    row = Transaction.get_by_id(made.transaction_id)
    assert (row.status, row.provider_transaction_id) == ("succeeded", early)
    assert held(services) == ()
    for act in (lambda: assign(services, payment, "SCH1042"), lambda: return_(services, payment)):
        with pytest.raises(ServiceError, match="is booked, no longer held"):
            act()
    assert till.pay("", receipt=early).transaction_id == made.transaction_id
    assert balances(school.id)["main"] == (5000_00, 0)
    assert check_everything() == []


def test_operators_get_a_mail_of_the_first_payment_that_is_held_on_a_day_and_see_each_in_their_trail(
    services: Services, school: ExampleClient, till: Till, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services.runtime.mail_outbox, "is_on", True)
    services.operators.create(CreateOperator("ops@ops.example", "correct horse battery"), operator())
    for day in range(2):
        for receipt in ("A", "B"):
            till.pay("SCHI042", receipt=f"{receipt}{day}")
        clock.advance(86_400)
    assert [row.recipient for row in Mail.select().where(Mail.kind == MailKind.INCOMING_HELD)] == [
        "ops@ops.example"
    ] * 2
    trail = services.audit.list_of_operators(ListOperatorActions(action="incoming.held"), operator()).items
    assert [(event.amount_cents, event.phone_number, event.actor) for event in trail] == [
        (5000_00, PAYER, "service")
    ] * 4


@pytest.fixture
def paid_at(clock: MovableClock, school: ExampleClient) -> datetime:
    """Exactly three hours before its notice, which would be a wrong time zone of any other payment."""
    clock.advance(4 * 3600)
    return clock.now() - timedelta(hours=3)


@pytest.fixture
def booked(school: ExampleClient, till: Till, paid_at: datetime) -> Transaction:
    row: Transaction = Transaction.get_by_id(till.pay("SCH1042", provider="mtn", at=paid_at).transaction_id)
    return row


def verdicts(services: Services, *rows: list[str]) -> dict[str, int]:
    lines = reconcile(services, rows, "mtn", is_dry_run=True).statement.lines
    return {verdict: count for verdict, count in lines.items() if count}


def test_a_payment_that_was_reported_late_matches_its_line(
    services: Services, booked: Transaction, paid_at: datetime
) -> None:
    assert verdicts(services, mtn_row(booked, Date=kampala(paid_at))) == {"matched": 1}


def test_the_statement_must_have_it_when_it_was_paid_and_not_when_it_was_booked(
    services: Services, booked: Transaction, paid_at: datetime
) -> None:
    def around(at: datetime) -> list[list[str]]:
        moments = [at - timedelta(minutes=5), at + timedelta(minutes=5)]
        return [
            mtn_row(booked, Id=f"other {moment}", Date=kampala(moment), **{"External id": ""}) for moment in moments
        ]

    assert verdicts(services, *around(paid_at)) == {"not_ours": 2, "not_theirs": 1}
    assert verdicts(services, *around(booked.created_at)) == {"not_ours": 2}
