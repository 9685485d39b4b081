"""Judges a history: what was asked, answered, paid and reported. It knows nothing of the program.

A history is a list of lines (dictionaries with `at`, in seconds, and `what`):

- `client`: a client and its first balance. `invoked`, `answered`, `unknown`: a call, by its number.
- `lost`: the database went back to `since`. `received`: a webhook got an event. `book`: a payment at the provider.
- `difference`: what reconciliation found. `mistake`, `check`: what the program says of itself.
- `account`, `transfer`, `transaction`, `event`: the rows at the end.

A name is a client with its own reference. Its payment is recognised in the provider's book by direction, phone number
and amount, which no two names share: the program's own identifiers prove nothing about it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from tests.simulation.gate_rules import closed_days_stay, counted_once, gate_holds
from tests.simulation.history import (
    LONGEST_WORK_SECONDS,
    History,
    Line,
    is_given_back,
    is_late,
    mark,
    name_of,
    receipt_of,
)
from tests.simulation.payer_rules import (
    SUCCESSFUL,
    checks_are_true,
    every_movement_is_used_once,
    payers_are_matched_by_their_code,
    payers_money_is_accounted,
)
from tests.simulation.payout_rules import rows_are_charged_once, rows_go_again_after_failure

FINAL = (*SUCCESSFUL, "failed")
MAY_FOLLOW = {
    "created": None,
    "submitted": {"submitted", "pending", "ambiguous", *FINAL},
    "pending": {"pending", "ambiguous", *FINAL},
    "ambiguous": {"pending", "ambiguous", *FINAL},
    "failed": set(FINAL),
    "succeeded": set(SUCCESSFUL),
    "reversed": {"reversed"},
}
# What fills a shortfall moves between accounts of one client.
FILLS = "fill/"
MOVED_BY_PROVIDERS = ("collection", "disbursement", "refund")


def paid_once(history: History) -> Iterator[str]:
    """Each name is paid at most once, and nothing is paid that no client asked for.

    A row of a payout is retried after the provider has confirmed its failure. A provider that takes the failure back
    even later has paid it twice. What it took back before the next attempt began was not paid.
    """
    asked = {mark(call) for call in history.calls.values()}
    seen: dict[tuple[str, str, int], Line] = {}
    taken_back = {mark(line) for line in history.moved if is_late(line) or history.was_hurried(line)}
    for line in history.moved:
        before = seen.get(mark(line))
        was_paid = before is not None and (before["is_kept"] or before["failed_at"] >= line["began_at"])
        if was_paid and mark(line) not in taken_back:
            yield f"{mark(line)} was paid twice"
        if mark(line) not in asked and "receipt" not in line:
            yield f"{mark(line)} was paid and not asked for"
        seen[mark(line)] = line


def answers_stay_true(history: History) -> Iterator[str]:
    """The answers about one name agree: one transaction, one amount, and statuses that only go forward."""
    last: dict[tuple[str, str], tuple[Line, Line]] = {}
    for call, answer in history.answers:
        if "id" not in answer:
            continue
        if answer["cents"] != call["cents"]:
            yield f"{name_of(call)} was answered with another amount"
        before = last.get(name_of(call))
        # Calls that overlap may be answered in any order.
        if before and before[1]["at"] < call["at"] and not history.may_be_lost(before[1]):
            if before[1]["id"] != answer["id"]:
                yield f"{name_of(call)} has two transactions: {before[1]['id']} and {answer['id']}"
            follows = MAY_FOLLOW[before[1]["status"]]
            if follows is not None and answer["status"] not in follows:
                yield f"{name_of(call)} was {before[1]['status']} and then {answer['status']}"
        last[name_of(call)] = call, answer


def nothing_acknowledged_is_lost(history: History) -> Iterator[str]:
    """What was answered is in the database at the end, as it was answered; only a lost commit takes it away."""
    marks = {mark(row) for row in history.transactions.values()}
    for call, answer in history.answers:
        if answer.get("accepted") and mark(call) not in marks and not history.may_be_lost(answer):
            yield f"{name_of(call)} was accepted and is not in the database"
        if "id" not in answer:
            continue
        row = history.transactions.get(answer["id"])
        if row is None:
            if not history.may_be_lost(answer):
                yield f"{name_of(call)} was answered and is not in the database"
            continue
        if (row["reference"], mark(row)) != (call["name"], mark(call)):
            yield f"{name_of(call)} is in the database with another content"
        follows = MAY_FOLLOW[answer["status"]]
        if follows is not None and row["status"] not in follows and not history.may_be_lost(answer):
            yield f"{name_of(call)} was answered {answer['status']} and is {row['status']}"


def refused_is_not_paid(history: History) -> Iterator[str]:
    """A name whose calls were all refused is not paid."""
    fates: dict[tuple[str, str], set[str]] = defaultdict(set)
    ended = {line["call"]: line for line in (*history.of["answered"], *history.of["unknown"])}
    for number, call in history.calls.items():
        line = ended.get(number, {})
        fates[mark(call)].add("refused" if "refused" in line else "open")
    for key, fate in fates.items():
        if fate == {"refused"} and key in history.moved_at:
            yield f"{key} was refused and paid"


def success_is_in_the_book(history: History) -> Iterator[str]:
    """Nothing is called succeeded, in rows, answers or webhooks, before the provider has moved its money."""
    for row in history.transactions.values():
        if row["type"] in MOVED_BY_PROVIDERS and row["status"] in SUCCESSFUL and history.success_at(row) is None:
            yield f"{row['reference']} is {row['status']} and not in the provider's book"
    for call, answer in history.answers:
        if answer.get("status") in SUCCESSFUL and history.moved_at.get(mark(call), answer["at"]) > answer["at"]:
            yield f"{name_of(call)} was answered {answer['status']} too early"
    for line in history.of["received"]:
        row = history.transactions.get(line["object"], {})
        is_success = line["status"] in SUCCESSFUL and row.get("type") in MOVED_BY_PROVIDERS
        if is_success and (history.success_at(row) or line["at"]) > line["at"]:
            yield f"{row['reference']} was reported {line['status']} too early"


def failure_is_true(history: History) -> Iterator[str]:
    """No payment is called failed while the provider has it and has not failed or refused it.

    After a lost commit the program cannot know that the provider has it. It sends it again under the same name, may
    find that no attempt left the machine, and learns the truth by its last enquiry.
    """
    by_mark = {mark(line): line for line in history.of["book"]}
    by_reference = {line["reference"]: line for line in history.of["book"]}
    refused = {line["reference"] for line in history.of["refused"]}
    # Operators found that another payment has the same money.
    contested = {mark(row) for row in history.transactions.values() if row.get("contested_id")}
    answers = [(mark(call), by_mark.get(mark(call)), answer) for call, answer in history.answers]
    reported = [(history.transactions.get(line["object"], {}), line) for line in history.of["received"]]
    # A row of a payout has an entry for each of its attempts.
    # A row that was never sent leaves its name to the next attempt.
    last = {row["provider_reference"]: row for row in history.transactions.values()}
    entries = {row["id"]: by_reference.get(reference) for reference, row in last.items()}
    reports = [(mark(row), entries.get(row.get("id")), line) for row, line in reported]
    for key, entry, line in (*answers, *reports):
        if line.get("status") != "failed" or entry is None or entry["reference"] in refused or key in contested:
            continue
        is_open = entry["failed_at"] is None or entry["failed_at"] > line["at"]
        if entry["began_at"] < line["at"] and is_open and not history.was_forgotten(entry):
            yield f"{key} was called failed while it was under way"


def payments_are_known(history: History) -> Iterator[str]:
    """What the provider has moved has succeeded here, or is in review, or was found by reconciliation."""
    rows = {row["provider_reference"]: row for row in history.transactions.values()}
    found = {line["reference"] for line in history.of["difference"]}
    receipts = {receipt_of(row) for row in history.transactions.values() if row["status"] in SUCCESSFUL}
    for line in history.moved:
        if "receipt" in line:
            continue
        row = rows.get(line["reference"])
        is_known = row is not None and (row["status"] in SUCCESSFUL or in_review(row))
        is_known = is_known or (line["direction"] == "collection" and line.get("number") in receipts)
        # Reconciliation is for what the program could not know.
        could_know = row is not None and not is_late(line) and not history.was_hurried(line)
        if line["is_kept"] and not is_known and (could_know or line["reference"] not in found):
            yield f"{mark(line)} was paid and is {row['status'] if row else 'unknown'} here"


def payments_end(history: History) -> Iterator[str]:
    """Every payment has ended or is in review, long after the last fault."""
    for row in history.transactions.values():
        if row["status"] not in FINAL and not in_review(row):
            yield f"{row['reference']} is still {row['status']}"


def in_review(row: Line) -> bool:
    """Whether an operator has to look at a transaction."""
    return row["review_opened_at"] is not None and row["review_closed_at"] is None


def sums_agree(history: History) -> Iterator[str]:
    """Balances follow from the transfers, add up to zero, and are what the ends of the payments say."""
    accounts = {line["id"]: line for line in history.of["account"]}
    balances: dict[str, int] = defaultdict(int)
    reserved: dict[str, int] = defaultdict(int)
    for leg in history.of["transfer"]:
        if leg["kind"] in ("move", "post"):
            balances[leg["debit_account_id"]] -= leg["amount_cents"]
            balances[leg["credit_account_id"]] += leg["amount_cents"]
        if leg["kind"] != "move":
            reserved[leg["debit_account_id"]] += leg["amount_cents"] * (1 if leg["kind"] == "hold" else -1)
    for account_id, line in accounts.items():
        held = reserved[account_id] + line.get("held_cents", 0)
        if (line["balance_cents"], line["reserved_cents"]) != (balances[account_id], held):
            yield f"{line['name']} has another balance than its transfers"
        if line["name"] == "main" and line["balance_cents"] - line["reserved_cents"] < 0:
            yield "a main account is below zero"
    if sum(balances.values()):
        yield "the accounts do not add up to zero"
    for client in history.of["client"]:
        own = [line for line in accounts.values() if line["client_id"] == client["client"]]
        has = sum(line["balance_cents"] for line in own if line["name"] in ("main", "shortfall"))
        holds = sum(line["reserved_cents"] - line.get("held_cents", 0) for line in own)
        should, should_hold = client["cents"], 0
        for row in history.transactions.values():
            if row["client_id"] != client["client"] or row["type"] == "deposit" or is_given_back(row):
                continue
            if row["status"] in SUCCESSFUL:
                should += 0 if row["reference"].startswith(FILLS) else signed(row) - row["fee_cents"]
            elif row["status"] != "failed" and row["type"] != "collection":
                should_hold += row["amount_cents"] + row["fee_cents"]
        if (has, holds) != (should, should_hold):
            yield f"client {client['place']} has {has}, {holds} of it reserved, instead of {should} and {should_hold}"


def signed(row: Line) -> int:
    """What a transaction brings to its client, negative for what it takes."""
    cents: int = row["amount_cents"]
    return cents if row["type"] == "collection" or row.get("effect") == "credit" else -cents


def refunds_stay_within(history: History) -> Iterator[str]:
    """The provider gives back at most what it collected, of the refunds that the program could know.

    It could not when the provider took a failure back after our last enquiry, or a lost commit took the refund away. A
    success that the provider took back gave nothing back.
    """
    known = {row["provider_reference"] for row in history.transactions.values()}
    collected: dict[str, int] = defaultdict(int)
    for line in history.moved:
        is_lost = line["reference"] not in known and history.was_forgotten(line)
        if line["direction"] == "collection":
            collected[line["phone"]] += line["cents"]
        elif line["direction"] == "refund" and line["is_kept"] and not is_late(line) and not is_lost:
            collected[line["phone"]] -= line["cents"]
    for phone, cents in collected.items():
        if cents < 0:
            yield f"{phone} got back {-cents} too much"


def events_are_in_order(history: History) -> Iterator[str]:
    """Each object's events have no gap, and a receiver takes each one, the first time in order."""
    numbers: dict[str, list[Line]] = defaultdict(list)
    for event in history.of["event"]:
        numbers[event["object_id"]].append(event)
    places = {event["id"]: event["sequence"] for event in history.of["event"]}
    first: dict[str, list[int]] = defaultdict(list)
    taken = set()
    for line in history.of["received"]:
        if line["taken"]:
            taken.add(line["event"])
        # An event that the database lost is not in order with those that came after.
        if (place := places.get(line["event"])) is not None and place not in first[line["object"]]:
            first[line["object"]].append(place)
    deaf = {line["client"] for line in history.of["client"] if not line.get("has_receiver", True)}
    for object_id, events in numbers.items():
        if sorted(event["sequence"] for event in events) != list(range(1, len(events) + 1)):
            yield f"the events of {object_id} have a gap"
        if first[object_id] != sorted(first[object_id]):
            yield f"the events of {object_id} came in the order {first[object_id]}"
        for event in events:
            if event["id"] not in taken and event["client_id"] not in deaf:
                yield f"event {event['sequence']} of {object_id} was never taken"
        row = history.transactions.get(object_id)
        statuses = [event["type"].split(".")[1] for event in sorted(events, key=lambda event: event["sequence"])]
        known = [status for status in statuses if status in MAY_FOLLOW]
        if row and (not known or known[-1] != row["status"]):
            yield f"{row['reference']} is {row['status']} and was last reported {known[-1:]}"


def program_agrees(history: History) -> Iterator[str]:
    """The program's own check finds nothing, and no code failed by a mistake.

    Work that was under way when the database went back finds its row gone: it fails, and that is right.
    """
    for line in (*history.of["mistake"], *history.of["check"]):
        if not any(loss["at"] <= line["at"] <= loss["at"] + LONGEST_WORK_SECONDS for loss in history.of["lost"]):
            yield str(line.get("error") or line.get("violation"))


Rule = Callable[[History], Iterator[str]]
RULES: tuple[Rule, ...] = (
    paid_once,
    answers_stay_true,
    nothing_acknowledged_is_lost,
    refused_is_not_paid,
    success_is_in_the_book,
    failure_is_true,
    payments_are_known,
    payments_end,
    sums_agree,
    refunds_stay_within,
    events_are_in_order,
    program_agrees,
    every_movement_is_used_once,
    payers_money_is_accounted,
    payers_are_matched_by_their_code,
    checks_are_true,
    counted_once,
    gate_holds,
    closed_days_stay,
    rows_are_charged_once,
    rows_go_again_after_failure,
)


def judge(lines: list[Line], rules: tuple[Rule, ...] = RULES) -> list[tuple[str, str]]:
    """Every violation of a history: the rule and what is wrong."""
    history = History(lines)
    return [(rule.__name__, sentence) for rule in rules for sentence in rule(history)]
