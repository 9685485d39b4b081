"""Replies that others recorded: each with what it proves, and where it was seen."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.providers import test_airtel, test_mtn
from tests.providers.provider_server import said
from ussd_server.providers.messages import Direction

_TABLE = Path(__file__).with_name("recorded_replies.jsonl")
ROWS = [json.loads(line) for line in _TABLE.read_text(encoding="utf-8").splitlines()]
_CALLS = {
    ("mtn", "send"): test_mtn.ask,
    ("mtn", "query"): test_mtn.enquire,
    ("airtel", "send"): test_airtel.send,
    ("airtel", "query"): test_airtel.query,
}
_PAYMENTS = {"mtn": test_mtn.PAYMENT, "airtel": test_airtel.REFUND}


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['provider']} {row['direction']}: {row['case']}" for row in ROWS])
def test_a_recorded_reply_proves_what_the_table_says(row: dict[str, Any]) -> None:
    payment = replace(_PAYMENTS[row["provider"]], direction=Direction(row["direction"]))
    got = _CALLS[row["provider"], row["call"]](said(f"{row['http']} Recorded", row["reply"]), payment=payment)
    assert (got.outcome, got.failure) == (row["outcome"], row.get("failure"))
    assert got.provider_transaction_id == row.get("receipt")
    assert got.reason == row.get("reason", got.reason)
