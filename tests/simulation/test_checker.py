"""The checker finds every kind of broken history, and nothing in a whole one."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.simulation import checker, gate_rules, history, payer_rules, payout_rules
from tests.simulation.checker import RULES, judge

Lines = list[dict[str, Any]]
PHONE = "+256770000001"
CODE = "SCH1007"


def whole() -> Lines:
    """A collection of 1,000 cents with a fee of 10, asked for twice, paid, reported and booked; a payer's is held."""
    payer = {"phone": "+256780000001", "cents": 500}
    call = {"what": "invoked", "kind": "collection", "client": "c", "name": "n", "phone": PHONE, "cents": 1000}
    answer = {"what": "answered", "id": "t", "cents": 1000}
    received = {"what": "received", "object": "t", "taken": True}
    event = {"what": "event", "at": 9, "object_id": "t", "client_id": "c"}
    account = {"what": "account", "at": 9, "client_id": "c", "reserved_cents": 0}
    leg = {"what": "transfer", "at": 9, "kind": "move", "transaction_id": "t"}
    return [
        {"what": "client", "at": 0, "client": "c", "place": 0, "cents": 0},
        {**call, "at": 1, "call": 1},
        {**answer, "at": 2, "call": 1, "status": "created"},
        {**received, "at": 3, "event": "e1", "status": "created"},
        {**received, "at": 5, "event": "e2", "status": "succeeded"},
        {**call, "at": 6, "call": 2},
        {**answer, "at": 7, "call": 2, "status": "succeeded"},
        {
            "what": "book",
            "at": 9,
            "reference": "r",
            "direction": "collection",
            "phone": PHONE,
            "cents": 1000,
            "began_at": 3,
            "moved_at": 4,
            "failed_at": None,
            "is_kept": True,
        },
        {
            "what": "transaction",
            "at": 9,
            "id": "t",
            "client_id": "c",
            "type": "collection",
            "status": "succeeded",
            "reference": "n",
            "phone_number": PHONE,
            "amount_cents": 1000,
            "fee_cents": 10,
            "refund_of": None,
            "provider_reference": "r",
            "review_opened_at": None,
            "review_closed_at": None,
        },
        {**account, "id": "main", "name": "main", "balance_cents": 990},
        {**account, "id": "fees", "name": "fees", "balance_cents": 10},
        {**account, "id": "provider", "name": "provider:mtn", "balance_cents": -1000},
        {**leg, "debit_account_id": "provider", "credit_account_id": "main", "amount_cents": 1000},
        {**leg, "debit_account_id": "main", "credit_account_id": "fees", "amount_cents": 10},
        {**event, "id": "e1", "type": "transaction.created", "sequence": 1},
        {**event, "id": "e2", "type": "transaction.succeeded", "sequence": 2},
        {"what": "code", "at": 0, "code": CODE, "client": "c", "cents": None},
        {**payer, "what": "invoked", "at": 5, "call": 3, "kind": "collection", "client": "c", "name": "in/7"},
        {"what": "answered", "at": 6, "call": 3, "held": True},
        {
            **payer,
            "what": "book",
            "at": 9,
            "reference": "payer",
            "direction": "collection",
            "began_at": 3,
            "moved_at": 3,
            "failed_at": None,
            "is_kept": True,
            "receipt": "7",
            "typed": "sch-10O7",
        },
        {
            "what": "movement",
            "at": 9,
            "receipt": "7",
            "amount_cents": 500,
            "use_kind": None,
            "transaction_id": None,
        },
    ]


def line(lines: Lines, what: str, number: int = 0) -> dict[str, Any]:
    """One line of a kind."""
    return [each for each in lines if each["what"] == what][number]


def changed(what: str, number: int = 0, **values: Any) -> Callable[[Lines], object]:
    """A history in which one line says something else."""
    return lambda lines: line(lines, what, number).update(values)


def without(what: str, number: int = 0) -> Callable[[Lines], object]:
    """A history without one line."""
    return lambda lines: lines.remove(line(lines, what, number))


def again(what: str, number: int = 0, **values: Any) -> Callable[[Lines], object]:
    """A history with a line more, like another one."""
    return lambda lines: lines.append({**line(lines, what, number), **values})


def both(*breaks: Callable[[Lines], object]) -> Callable[[Lines], object]:
    """Several changes at once."""
    return lambda lines: [each(lines) for each in breaks]


def checked(typed: str, *, is_taken: bool) -> Callable[[Lines], object]:
    """A history in which a till asked before a payment."""
    return lambda lines: lines.append({"what": "checked", "at": 3, "typed": typed, "cents": 500, "is_taken": is_taken})


def not_late(lines: Lines) -> None:
    """Reconciliation finds a payment that the program could have known."""
    changed("transaction", status="failed")(lines)
    lines.append({"what": "difference", "at": 9, "reference": "r"})


def added(*more: dict[str, Any]) -> Callable[[Lines], object]:
    """A history with further lines."""
    return lambda lines: lines.extend(copy.deepcopy(list(more)))


def sent(at: float, *, limit: int | None = None) -> Callable[[Lines], object]:
    """A history in which a sender's payment of 300 cents began to leave and moved."""
    phone = {"phone": "+256762000000", "cents": 300}
    book = {**line(whole(), "book"), **phone, "direction": "disbursement", "reference": "out", "moved_at": at + 1}
    return added(
        {"what": "sender", "at": 1, "sender": "key", "limit": limit},
        {"what": "invoked", "at": 2, "call": 9, "kind": "disbursement", "client": "c", "name": "out", **phone}
        | {"sender": "key"},
        {"what": "called", "at": at, "kind": "ask", "phone": phone["phone"]},
        book,
    )


def attempted_twice(*, failed_at: float | None) -> Callable[[Lines], object]:
    """A history in which a row of a payout goes to its provider under two names, the second one at 20."""
    row = {**line(whole(), "book"), "phone": "+256760000000", "direction": "disbursement"}
    return added(
        {**row, "reference": "first", "began_at": 10, "moved_at": None, "failed_at": failed_at, "is_kept": False},
        {**row, "reference": "second", "began_at": 21, "moved_at": 22},
        {"what": "called", "at": 9, "kind": "ask", "phone": row["phone"], "reference": "first"},
        {"what": "called", "at": 20, "kind": "ask", "phone": row["phone"], "reference": "second"},
    )


ATTEMPT = {"what": "attempt", "at": 9, "payout_id": "p", "line": 1}
REVOKED = {"what": "revoked", "at": 10, "sender": "key", "how": "deleted key"}
DISABLED = {"what": "revoked", "at": 10, "sender": "c", "how": "disabled client"}
BANK = {"what": "bank", "at": 5, "proposed_at": 4, "reference": "FT1", "client": "c", "cents": 200}
CLOSED = {"what": "closed", "at": 9, "day": "2026-03-02", "begins": 0, "ends": 9, "ours": 1400, "theirs": 1500}
CLOSED |= {"bridge": -100}
CLOSED_DAY = {"what": "closed_day", "at": 9, "day": "2026-03-02", "ours_cents": 1400, "theirs_cents": 1500}
REFUSED = both(*(changed("answered", number, refused="INSUFFICIENT_BALANCE") for number in range(2)))
BOOKED = changed("transaction", origin="payer", provider_transaction_id="7", metadata='{"payment_code":"SCH1007"}')
BROKEN: list[tuple[str, Callable[[Lines], object]]] = [
    ("paid_once", again("book", reference="other")),
    ("paid_once", again("book", reference="other", phone="+256770000002")),
    ("answers_stay_true", changed("answered", 1, id="other")),
    ("answers_stay_true", changed("answered", 0, cents=900)),
    ("answers_stay_true", both(changed("answered", 0, status="succeeded"), changed("answered", 1, status="failed"))),
    ("nothing_acknowledged_is_lost", without("transaction")),
    ("nothing_acknowledged_is_lost", changed("transaction", amount_cents=900)),
    ("nothing_acknowledged_is_lost", changed("transaction", status="failed")),
    ("refused_is_not_paid", REFUSED),
    ("success_is_in_the_book", changed("book", moved_at=None)),
    ("success_is_in_the_book", changed("book", moved_at=6)),
    ("success_is_in_the_book", changed("book", moved_at=8)),
    ("failure_is_true", changed("answered", 1, status="failed")),
    ("failure_is_true", changed("received", 1, status="failed")),
    ("payments_are_known", changed("transaction", status="failed")),
    ("payments_are_known", not_late),
    ("payments_are_known", changed("transaction", provider_reference="other")),
    ("payments_end", changed("transaction", status="pending")),
    ("sums_agree", changed("account", 0, balance_cents=991)),
    ("sums_agree", changed("transfer", 0, amount_cents=999)),
    ("sums_agree", changed("transaction", fee_cents=11)),
    ("sums_agree", again("transfer", 0, kind="hold")),
    ("refunds_stay_within", again("book", reference="back", direction="refund", cents=1001)),
    ("events_are_in_order", changed("event", 1, sequence=3)),
    ("events_are_in_order", without("received", 1)),
    ("events_are_in_order", changed("received", 1, taken=False)),
    ("events_are_in_order", both(changed("received", 0, event="e2"), changed("received", 1, event="e1"))),
    ("events_are_in_order", changed("event", 1, type="transaction.failed")),
    ("program_agrees", lambda lines: lines.append({"what": "mistake", "at": 3, "error": "KeyError"})),
    ("program_agrees", lambda lines: lines.append({"what": "check", "at": 9, "violation": "money"})),
    ("every_movement_is_used_once", again("movement")),
    ("every_movement_is_used_once", again("transaction", id="u", reference="m")),
    ("every_movement_is_used_once", changed("account", 2, balance_cents=-999)),
    ("every_movement_is_used_once", changed("book", cents=999)),
    ("every_movement_is_used_once", again("account", 1, id="bank", name="bank", balance_cents=200)),
    ("payers_money_is_accounted", without("movement")),
    ("payers_money_is_accounted", again("movement")),
    ("payers_money_is_accounted", changed("movement", amount_cents=501)),
    ("payers_money_is_accounted", changed("movement", use_kind="payment", transaction_id="t")),
    ("payers_money_is_accounted", BOOKED),
    ("payers_are_matched_by_their_code", BOOKED),
    ("payers_are_matched_by_their_code", both(BOOKED, changed("book", 1, typed=CODE), changed("code", client="d"))),
    ("payers_are_matched_by_their_code", changed("book", 1, typed="sch 1007")),
    ("checks_are_true", checked("SCH1O07", is_taken=True)),
    ("checks_are_true", checked("sch-1007", is_taken=False)),
    (
        "counted_once",
        both(
            changed("transaction", provider_transaction_id="1"),
            again("transaction", id="u", provider_transaction_id="-1 "),
        ),
    ),
    ("counted_once", added(BANK)),
    ("counted_once", both(added(BANK), again("transaction", id="u", type="settlement", provider_transaction_id="FT1"))),
    ("gate_holds", both(sent(200), added(REVOKED))),
    ("gate_holds", both(sent(200), added(DISABLED, {"what": "restored", "at": 2000, "sender": "c"}))),
    ("gate_holds", sent(200, limit=299)),
    ("closed_days_stay", added(CLOSED)),
    ("closed_days_stay", added(CLOSED, CLOSED_DAY | {"ours_cents": 1300})),
    ("closed_days_stay", added(CLOSED | {"bridge": -99}, CLOSED_DAY)),
    ("closed_days_stay", added(CLOSED | {"theirs": 500}, CLOSED_DAY | {"theirs_cents": 500})),
    (
        "rows_are_charged_once",
        both(
            again("transaction", id="u"),
            added({**ATTEMPT, "transaction_id": "t"}, {**ATTEMPT, "transaction_id": "u"}),
        ),
    ),
    ("rows_go_again_after_failure", attempted_twice(failed_at=None)),
    ("rows_go_again_after_failure", attempted_twice(failed_at=20.5)),
]


def test_a_whole_history_breaks_no_rule() -> None:
    assert judge(whole()) == []


@pytest.mark.parametrize(("rule", "breaks"), BROKEN)
def test_a_broken_history_breaks_its_rule(rule: str, breaks: Callable[[Lines], object]) -> None:
    lines = copy.deepcopy(whole())
    breaks(lines)
    assert rule in {each for each, _ in judge(lines)}


def test_every_rule_has_a_broken_history() -> None:
    assert {rule.__name__ for rule in RULES} == {rule for rule, _ in BROKEN}


GIVEN_BACK = {
    "provider_transaction_id": "1",
    "origin": "payer",
    "status": "reversed",
    "released_at": "2026-03-02",
    "metadata": '{"payment_code":""}',
}
HOLDS: list[tuple[str, Callable[[Lines], object]]] = [
    ("counted_once", changed("transaction", provider_transaction_id="1")),
    (
        "counted_once",
        both(
            changed("transaction", provider_transaction_id="1"),
            again("transaction", id="u", same_money_as="t", **GIVEN_BACK),
        ),
    ),
    (
        "counted_once",
        both(
            added(BANK),
            again("transaction", id="u", type="settlement", provider_transaction_id="FT1", amount_cents=200),
        ),
    ),
    (
        "paid_once",
        both(changed("book", is_kept=False, failed_at=5), again("book", reference="other", began_at=6, failed_at=None)),
    ),
    ("gate_holds", both(sent(9), added(REVOKED))),
    ("gate_holds", both(sent(100), added(REVOKED))),
    ("gate_holds", both(sent(200), added(REVOKED, {"what": "lost", "at": 11, "since": 9}))),
    ("gate_holds", both(sent(200), added(DISABLED, {"what": "restored", "at": 150, "sender": "c"}))),
    ("gate_holds", sent(200, limit=300)),
    ("closed_days_stay", added(CLOSED, CLOSED_DAY)),
    ("rows_go_again_after_failure", attempted_twice(failed_at=15)),
]


@pytest.mark.parametrize(("rule", "happens"), HOLDS)
def test_what_is_allowed_breaks_no_rule(rule: str, happens: Callable[[Lines], object]) -> None:
    lines = copy.deepcopy(whole())
    happens(lines)
    assert rule not in {each for each, _ in judge(lines)}


def test_what_a_lost_commit_took_away_is_missing_by_right_when_reconciliation_finds_it() -> None:
    lines = [each for each in whole() if each["what"] in ("client", "invoked", "book") and "receipt" not in each]
    lines += [{**line(whole(), "answered"), "at": 2}, {"what": "lost", "at": 8, "since": 1.5}]
    assert {rule for rule, _ in judge(lines)} == {"payments_are_known"}
    assert judge([*lines, {"what": "difference", "at": 9, "reference": "r"}]) == []


def test_a_refund_whose_failure_was_taken_back_too_late_is_the_providers_mistake() -> None:
    lines = whole()
    again("book", reference="back", direction="refund", cents=1001, failed_at=5, moved_at=606)(lines)
    assert "refunds_stay_within" not in {rule for rule, _ in judge(lines)}


def test_a_refund_whose_success_was_taken_back_allows_another_one() -> None:
    lines = whole()
    again("book", reference="back", direction="refund", cents=1000)(lines)
    again("book", reference="undone", direction="refund", cents=1000, moved_at=4, failed_at=5, is_kept=False)(lines)
    assert "refunds_stay_within" not in {rule for rule, _ in judge(lines)}


def test_a_collection_whose_failure_was_taken_back_too_late_may_be_refunded() -> None:
    lines = whole()
    changed("book", failed_at=4, moved_at=5000)(lines)
    again("book", reference="back", direction="refund", failed_at=None, moved_at=6000)(lines)
    assert "refunds_stay_within" not in {rule for rule, _ in judge(lines)}


def test_a_lost_commit_that_sent_a_payment_excuses_what_the_program_could_not_know() -> None:
    lines = whole()
    changed("received", 1, status="failed")(lines)
    again("book", reference="forgotten", direction="refund", cents=1000, began_at=6)(lines)
    again("book", reference="back", direction="refund", cents=1000, began_at=500)(lines)
    again("transaction", id="u", type="refund", provider_reference="back")(lines)
    rules = {"failure_is_true", "refunds_stay_within"}
    assert rules <= {rule for rule, _ in judge(lines)}
    lines.append({"what": "lost", "at": 7, "since": 2})
    assert not rules & {rule for rule, _ in judge(lines)}


def test_deadlines_that_a_lost_commit_moved_excuse_a_success_that_reconciliation_found() -> None:
    lines = whole()
    both(changed("transaction", status="failed"), changed("book", failed_at=3, moved_at=300))(lines)
    lines += [{"what": "jump", "at": 100, "seconds": 5000}, {"what": "lost", "at": 120, "since": 90}]
    assert "payments_are_known" in {rule for rule, _ in judge(lines)}
    found = {"what": "difference", "at": 400, "reference": "r", "receipt": "1", "verdict": "status_differs"}
    assert "payments_are_known" not in {rule for rule, _ in judge([*lines, found])}
    noted = [line for line in lines if line["what"] != "lost"]
    assert "payments_are_known" in {rule for rule, _ in judge([*noted, found])}


def test_the_checker_imports_nothing_of_the_program() -> None:
    modules = (checker, gate_rules, payer_rules, payout_rules, history)
    trees = [ast.parse(Path(module.__file__).read_text(encoding="utf-8")) for module in modules]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    imported = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    ours = {module.__name__ for module in modules[1:]}
    assert imported == {"__future__", "collections", "collections.abc", "itertools", "json", "typing", *ours}
    assert not any(isinstance(node, ast.Import) for node in nodes)
