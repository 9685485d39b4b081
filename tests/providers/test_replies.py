"""Replies of providers are read strictly, and notes to them hold harmless characters only."""

from __future__ import annotations

import csv
from decimal import Decimal
from importlib.resources import files

import pytest

from ussd_server.providers.failures import FailureCode
from ussd_server.providers.http import replies
from ussd_server.providers.http.replies import Reasons, Standing
from ussd_server.providers.messages import Direction


@pytest.mark.parametrize(
    ("amount", "cents"),
    [
        ("5000", 500_000),
        ("5000.00", 500_000),
        ("5000.5", 500_050),
        (5000, 500_000),
        (Decimal("5E+3"), 500_000),
        (Decimal("0.01"), 1),
        ("5000.000000", 500_000),
        ("0", 0),
        ("5,000", None),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        (" 1", None),
        ("1\n", None),
        ("٥", None),
        ("", None),
        ("0.001", None),
        (True, None),
        (None, None),
        ([], None),
        (Decimal("Infinity"), None),
        ("9" * 16, None),
        (Decimal("1E-999999999"), None),
        (Decimal("1E+999999999"), None),
        (Decimal("0E-999999999"), None),
    ],
)
def test_an_amount_is_read_to_the_cent_or_not_at_all(amount: object, cents: int | None) -> None:
    assert replies.cents(amount) == cents


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"5",
        b'"x"',
        b"{",
        b"\xff\xfe{}",
        b'{"a":1}x',
        b"<html>",
        b"[" * 200_000,
        b'{"a":' * 200_000,
        b'{"a":1e999999999999999999999}',
        b'{"a":' + b"9" * 5000 + b"}",
        b"\xef\xbb\xbf{}",
    ],
    ids=lambda body: body[:12],
)
def test_a_body_that_is_no_json_object_is_empty(body: bytes) -> None:
    assert replies.parse(body).get("status") is None


@pytest.mark.parametrize(
    ("candidates", "kept"),
    [
        (("EXPIRED",), "EXPIRED"),
        ((None, 7), "7"),
        (({}, [], True, ""), ""),
        (("<b>x\r\n</b>",), "b x b"),
        (("a" * 200,), "a" * 80),
    ],
)
def test_a_code_or_message_is_kept_without_harmful_characters(candidates: tuple[object, ...], kept: str) -> None:
    assert replies.code_or_message(*candidates) == kept


def test_a_note_is_sent_without_special_characters() -> None:
    assert replies.note("ACME's order #12 – \u202e<b>äöü</b>\n", 120) == "ACME s order 12 b b"
    assert len(replies.note("a " * 200, 120)) <= 120


@pytest.mark.parametrize("table", ["ussd_server.providers.mtn", "ussd_server.providers.airtel"])
def test_every_word_of_a_table_has_a_source_and_a_meaning_in_both_directions(table: str) -> None:
    reasons = Reasons(table)
    rows = csv.DictReader(files(table).joinpath("failure_reasons.csv").read_text().splitlines())
    for row in rows:
        assert row["source"]
        for direction in Direction:
            assert isinstance(reasons.meaning(row["reason"], direction), FailureCode | Standing)


@pytest.mark.parametrize("reason", [None, 5, {}, [], "", "MADE_UP"])
def test_an_unknown_reason_has_no_meaning_and_is_a_general_failure_once_it_failed(reason: object) -> None:
    reasons = Reasons("ussd_server.providers.mtn")
    assert reasons.meaning(reason, Direction.COLLECTION) is None
    assert reasons.failure(reason, Direction.COLLECTION) is FailureCode.PROVIDER_ERROR


def test_words_are_found_in_any_case() -> None:
    assert Reasons("ussd_server.providers.mtn").meaning(" expired ", Direction.COLLECTION) is FailureCode.PAYER_TIMEOUT
