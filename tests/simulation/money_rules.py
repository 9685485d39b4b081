"""What must hold of money that moves otherwise than it was asked for. It knows nothing of the program, either.

Further lines: `moved`: what moved at an `account`, its `cents` with a sign, and the `client` whose money it is, None
for nobody's. `movement`, `open_difference`: rows at the end. `sums`: what the program prints of an account. `imported`,
`undone`: statements, `wrong` ones of which lack a line or have another amount.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from tests.simulation.checker import (
    FILLS,
    SUCCESSFUL,
    Rule,
    answers_stay_true,
    events_are_in_order,
    in_review,
    nothing_acknowledged_is_lost,
    payments_end,
    program_agrees,
    sums_agree,
)
from tests.simulation.history import History, Line, is_given_back, receipt_of


def ledger_is_what_moved(history: History) -> Iterator[str]:
    """At the end each account has in the ledger what moved there for clients, and at any time what is used."""
    outside: dict[str, int] = defaultdict(int)
    for line in history.of["moved"]:
        outside[f"provider:{line['account']}"] += line["cents"] if line["client"] else 0
    for name, cents in outside.items():
        has = -sum(line["balance_cents"] for line in history.of["account"] if line["name"] == name)
        if has != cents:
            yield f"{name} has {has} in the ledger, and {cents} moved"
    for line in history.of["sums"]:
        if line["ledger"] != line["used"]:
            yield f"{line['account']} has {line['ledger']} in the ledger at {line['at']}, and {line['used']} is used"


def clients_have_what_they_are_owed(history: History) -> Iterator[str]:
    """Each client has what moved for it, less the fees of its payments."""
    for client in history.of["client"]:
        own = [line for line in history.of["account"] if line["client_id"] == client["client"]]
        has = sum(line["balance_cents"] for line in own if line["name"] in ("main", "shortfall"))
        fees = sum(row["fee_cents"] for row in _counting(history) if row["client_id"] == client["client"])
        moved = sum(line["cents"] for line in history.of["moved"] if line["client"] == client["client"])
        if has != client["cents"] + moved - fees:
            yield f"client {client['place']} has {has} instead of {client['cents'] + moved - fees}"


def nothing_is_counted_twice(history: History) -> Iterator[str]:
    """No receipt of one account and direction is used by two transactions, no movement and no transaction twice.

    At Airtel refunds of one collection have its receipt, each as its own money.
    """
    used: dict[tuple[str, bool, str], list[Line]] = defaultdict(list)
    for row in _counting(history):
        if row["type"] in ("collection", "disbursement", "refund", "correction") and receipt_of(row):
            is_in = row["type"] == "collection" or row["effect"] == "credit"
            used[row["provider"], is_in, receipt_of(row)].append(row)
    moved = Counter((line["account"], line["cents"] > 0, line["receipt"]) for line in history.of["moved"])
    for (account, is_in, receipt), rows in used.items():
        if len(rows) > max(1, moved[account, is_in, receipt]):
            yield f"receipt {receipt} of {account} counts as {' and '.join(row['reference'] for row in rows)}"
    counts = Counter(row["transaction_id"] for row in history.of["movement"] if row["transaction_id"])
    yield from (f"transaction {each} uses {count} movements" for each, count in counts.items() if count > 1)


def everything_real_is_booked(history: History) -> Iterator[str]:
    """Whatever moved was told by a statement, and two operators could use it; no review and no difference is open."""
    for row in history.of["movement"]:
        if row["use_kind"] is None and row["told"] != "[]":
            yield f"movement {row['id']} of {row['amount_cents']} is still held: {_last_refusal(history, row['id'])}"
    for row in history.transactions.values():
        if in_review(row):
            yield f"{row['reference']} is still in review ({row['review_reason']}): {_last_refusal(history, row['id'])}"
    for row in history.of["open_difference"]:
        yield f"difference {row['id']} ({row['verdict']}) is still open: {_last_refusal(history, row['id'])}"


def closed_days_are_what_moved(history: History) -> Iterator[str]:
    """A day is closed with everything that moved on it, as far as no wrong file told otherwise, and stays so."""
    rows = {(row["account"], row["day"]): (row["ours_cents"], row["theirs_cents"]) for row in history.of["closed_day"]}
    for line in history.of["closed"]:
        moved = [each for each in history.of["moved"] if each["account"] == line["account"]]
        theirs = sum(each["cents"] for each in moved if line["begins"] <= each["moved_at"] < line["ends"])
        if line["theirs"] != theirs and not _has_wrong_file(history, line):
            yield f"{line['day']} of {line['account']} was closed with {line['theirs']}, and {theirs} moved"
        if lacking := line["ours"] - line["theirs"] - line["bridge"]:
            yield f"{line['day']} of {line['account']} lacks {lacking} in its bridge"
        if rows.get((line["account"], line["day"])) != (line["ours"], line["theirs"]):
            yield f"{line['day']} of {line['account']} did not stay as it was closed"


def _counting(history: History) -> list[Line]:
    rows = history.transactions.values()
    return [row for row in rows if row["status"] in SUCCESSFUL and not is_given_back(row) and _is_of_money(row)]


def _is_of_money(row: Line) -> bool:
    return row["type"] != "deposit" and not row["reference"].startswith(FILLS)


def _last_refusal(history: History, about: str) -> str:
    refusals = [line for line in history.of["refused decision"] if line["about"] == about]
    return f"{refusals[-1]['name']}: {refusals[-1]['why']}" if refusals else "nobody decided"


def _has_wrong_file(history: History, closed: Line) -> bool:
    undone = {line["statement"]: line["at"] for line in history.of["undone"]}
    return any(
        line["wrong"] and line["account"] == closed["account"] and line["at"] <= closed["at"]
        for line in history.of["imported"]
        if undone.get(line["statement"], closed["at"]) >= closed["at"]
    )


MONEY_RULES: tuple[Rule, ...] = (
    ledger_is_what_moved,
    clients_have_what_they_are_owed,
    nothing_is_counted_twice,
    everything_real_is_booked,
    closed_days_are_what_moved,
    answers_stay_true,
    nothing_acknowledged_is_lost,
    payments_end,
    sums_agree,
    events_are_in_order,
    program_agrees,
)
