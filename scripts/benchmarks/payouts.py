"""`payouts`: rows of a payout recorded per second, beside single disbursements by concurrent calls of the API."""

from __future__ import annotations

import time
from typing import Any

from benchmarks.calls import TARGETS
from benchmarks.load.requests import Key, Reply, ask, key_headers, request
from benchmarks.report import Size, print_table, ratios, spread
from benchmarks.services import opened_services
from benchmarks.stage import Stage, start_stage
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.payouts import Payout
from ussd_server.services.payouts.attempts import make_attempts
from ussd_server.services.transactions.create import TransactionCreator

ROWS = 5000
_SINGLE = "single disbursements, 32 connections"
_DRAFT = "rows judged and kept: POST /api/payouts"
_RESERVED = "rows reserved: approve"
_RECORDED = "rows recorded and reserved: approve, then the worker"
# As many as the sandbox takes between two steps of the worker, which makes them in one database transaction.
_AT_ONCE = 50


def measure_payouts(size: Size) -> dict[str, Any]:
    """Make a payout, approve it, record its rows, and make single disbursements, in turn; return the rates."""
    count = min(ROWS, size.rows)
    (single,) = (target for target in TARGETS if target.name == "disbursement")
    rates: dict[str, list[float]] = {_SINGLE: [], _DRAFT: [], _RESERVED: [], _RECORDED: []}
    with start_stage(size.clients) as stage:
        # The first round warms up.
        for number in range(1 + size.rounds):
            drafted, approved, recorded = _pay_out(stage, number, count)
            alone = single.run(stage, size.seconds).per_second
            if number:
                rates[_SINGLE].append(alone)
                rates[_DRAFT].append(count / drafted)
                rates[_RESERVED].append(count / approved)
                rates[_RECORDED].append(count / (approved + recorded))
    rows = [
        {"step": step, "per_second": spread(seen), "to_single": ratios(seen, rates[_SINGLE])}
        for step, seen in rates.items()
    ]
    print_table(f"Payouts of {count:,} rows", rows)
    return {"payouts": rows}


def _pay_out(stage: Stage, number: int, count: int) -> tuple[float, float, float]:
    """Make and approve one payout, and record its rows; return the seconds of each."""
    # Two keys of one client: the maker does not approve.
    maker, approver = (stage.keys[purpose][number] for purpose in ("disbursement", "approval"))
    lines = "".join(f"+2567{71_000_000 + place},500,r{place}\n" for place in range(count))
    file = f"phone_number,amount,reference\n{lines}".encode()
    drafted, made = _post(stage, maker, f"/api/payouts?reference=bench{number}", file, "text/csv")
    payout = made.document["data"]
    assert payout["ready_count"] == count, payout
    approved, reply = _post(stage, approver, f"/api/payouts/{payout['payout_id']}/approve", b"{}")
    assert reply.document["data"]["queued_count"] == count, reply.body
    return drafted, approved, _record(stage, payout["payout_id"], count)


def _record(stage: Stage, payout_id: str, count: int) -> float:
    """Make the transactions of every row, as the worker does when they are about to be sent; return the seconds."""
    with opened_services(stage.home, stage.settings) as services:
        creator, sandbox = TransactionCreator(services.runtime), services.runtime.providers.accounts["sandbox"]
        made = 0
        began = time.perf_counter()
        while made < count:
            with unit_of_work():
                made += make_attempts(creator, lock_row(Payout, payout_id), sandbox, _AT_ONCE)
        return time.perf_counter() - began


def _post(
    stage: Stage, key: Key, path: str, body: bytes, content_type: str = "application/json"
) -> tuple[float, Reply]:
    headers = key_headers(key) | {"Content-Type": content_type}
    began = time.perf_counter()
    reply = ask(stage.webs["service"].port, request("POST", path, headers, body))
    return time.perf_counter() - began, reply
