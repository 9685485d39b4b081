"""What must hold of the money that payers send by themselves. Like the checker, it knows nothing of the program.

Further lines: `code`: a payment code, its client and the only amount that it takes, None for any. `checked`: what was
answered before a payment. `decided`: the code under which operators book held money, None for a return. `movement`: a
row at the end, with `use_kind` None while it is held. A `book` line of a payer has the `receipt` and the code that was
`typed`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from json import loads

from tests.simulation.history import History, Line, is_given_back, mark, receipt_of

SUCCESSFUL = ("succeeded", "reversed")
_SIGNS = {"collection": 1, "disbursement": -1, "refund": -1}


def payers_money_is_accounted(history: History) -> Iterator[str]:
    """Each payment of a payer is booked once, held or returned, with its amount; no other is called a payer's."""
    movements: dict[str, list[Line]] = defaultdict(list)
    for row in history.of["movement"]:
        movements[row["receipt"]].append(row)
    paid = _paid(history)
    booked: dict[str, list[Line]] = defaultdict(list)
    for row in _booked(history):
        booked[row["provider_transaction_id"]].append(row)
        if row["provider_transaction_id"] not in paid:
            yield f"{row['reference']} was booked and never paid"
    for receipt, line in paid.items():
        rows, collections = movements[receipt], booked[receipt]
        if [row["amount_cents"] for row in rows] != [line["cents"]]:
            yield f"receipt {receipt} of {line['cents']} is {len(rows)} movements"
            continue
        expected = [rows[0]["transaction_id"]] if rows[0]["use_kind"] == "payment" else []
        if [row["id"] for row in collections] != expected:
            yield f"receipt {receipt} is used as {rows[0]['use_kind']} and has {len(collections)} collections"
        for row in collections:
            if row["amount_cents"] != line["cents"] or row["status"] not in SUCCESSFUL:
                yield f"receipt {receipt} of {line['cents']} is booked as {row['amount_cents']}, {row['status']}"


def every_movement_is_used_once(history: History) -> Iterator[str]:
    """No receipt is two movements, no transaction uses two, and no two use one.

    The ledger has at the provider what it moved for the transactions that stand, and at the bank what that paid.
    """
    for column in ("receipt", "transaction_id"):
        values = Counter(row[column] for row in history.of["movement"] if row[column] is not None)
        yield from (f"{column} {value} is in {count} movements" for value, count in values.items() if count > 1)
    used = [(row["type"], line) for row in history.transactions.values() if (line := _moved_for(history, row))]
    counts = Counter(line["reference"] for _, line in used)
    yield from (f"{reference} is used by {count} transactions" for reference, count in counts.items() if count > 1)
    outside = {
        "provider:mtn": -sum(_SIGNS[kind] * line["cents"] for kind, line in used if kind in _SIGNS),
        "bank": sum(line["cents"] for kind, line in used if kind == "settlement"),
    }
    for name, cents in outside.items():
        has = sum(line["balance_cents"] for line in history.of["account"] if line["name"] == name)
        if has != cents:
            yield f"{name} has {has} in the ledger, and {cents} moved for the transactions"


def _moved_for(history: History, row: Line) -> Line | None:
    """What moved outside for a transaction that stands: by its receipt, else as its payment is recognised."""
    if row["status"] not in SUCCESSFUL or is_given_back(row):
        return None
    if row["type"] == "settlement":
        return next((line for line in history.of["bank"] if line["reference"] == receipt_of(row)), None)
    by_receipt = (line for line in history.moved if line.get("number") == receipt_of(row) and row["type"] in _SIGNS)
    return next(by_receipt, None) or next((line for line in history.moved if mark(line) == mark(row)), None)


def payers_are_matched_by_their_code(history: History) -> Iterator[str]:
    """A payment is booked under the code that was typed, if it takes the amount; else as two operators decided."""
    clients = {line["code"]: line["client"] for line in history.of["code"]}
    paid = _paid(history)
    decided: dict[str, set[str]] = defaultdict(set)
    for line in history.of["decided"]:
        decided[line["receipt"]].add(line["code"])
    for row in _booked(history):
        receipt = row["provider_transaction_id"]
        code = loads(row["metadata"])["payment_code"]
        line = paid.get(receipt, {"typed": "", "cents": 0})
        fitting = {fitting_code(history, line["typed"], line["cents"])}
        if code not in fitting | decided[receipt]:
            yield f"receipt {receipt} with the code {line['typed']!r} was booked under {code}"
        if clients.get(code) != row["client_id"]:
            yield f"receipt {receipt} was booked under {code} for another client"
    for call, answer in history.answers:
        line = paid.get(call["name"].removeprefix("in/"), {})
        is_held = bool(line) and answer.get("held") and not history.was_time_wrong(answer["at"])
        if is_held and fitting_code(history, line["typed"], line["cents"]):
            yield f"receipt {line['receipt']} was held with the code {line['typed']!r}"


def checks_are_true(history: History) -> Iterator[str]:
    """A till learns that a payment is taken exactly when it would be booked."""
    for line in history.of["checked"]:
        if line["is_taken"] != bool(fitting_code(history, line["typed"], line["cents"])):
            yield f"{line['typed']!r} and {line['cents']} were checked as {line['is_taken']}"


def fitting_code(history: History, typed: str, cents: int) -> str | None:
    """The code that a payer typed, if it is one and takes the amount."""
    code = canonical(typed)
    takes = history.codes.get(code, 0)
    return code if takes in (None, cents) else None


def canonical(typed: str) -> str:
    """A code without what payers write otherwise."""
    return typed.replace(" ", "").replace("-", "").upper()


def _paid(history: History) -> dict[str, Line]:
    return {line["receipt"]: line for line in history.of["book"] if "receipt" in line}


def _booked(history: History) -> list[Line]:
    """What was booked of payers; a receipt that a till reported is judged by `counted_once`."""
    rows = [row for row in history.transactions.values() if row.get("origin") == "payer"]
    return [row for row in rows if receipt_of(row) not in history.reported]
