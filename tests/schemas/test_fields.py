"""Every field type of the API: the values that it accepts and those that it refuses."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marshmallow import ValidationError, fields

from schemas.clients import CreateApiKeyBody, Scopes
from schemas.fields import Amount, Flag, JsonObject, PhoneNumber, Query, Text, Timestamp, Whole
from schemas.payouts import CreatePayoutBody
from ussd_server.values import iso_milliseconds, shillings


def taken(field: fields.Field[Any], value: Any) -> Any:
    """Load a value. Raises ValidationError when the field refuses it."""
    return field.deserialize(value)


def refused(field: fields.Field[Any], *values: Any) -> None:
    """Check that a field refuses every one of these values."""
    for value in values:
        with pytest.raises(ValidationError):
            raise AssertionError(f"{value!r} was taken as {taken(field, value)!r}")


def test_a_phone_number_is_plus_256_and_nine_ascii_digits() -> None:
    assert taken(PhoneNumber(), "+256770000000") == "+256770000000"
    refused(
        PhoneNumber(),
        "",
        "256770000000",
        "0770000000",
        "+25677000000",
        "+2567700000000",
        " +256770000000",
        "+256770000000 ",
        "+256770000000\n",
        "+256 770000000",
        "+25677000000a",
        "+256७७००००००",
        "+２５６770000000",
        "+254770000000",
        256770000000,
        None,
        True,
        [],
        {},
        1.5,
        "\x00",
        "+256770000000\x00",
    )
    assert PhoneNumber.refusal == "INVALID_PHONE_NUMBER"


def test_an_amount_becomes_whole_cents() -> None:
    for given_amount, cents in [
        (1, 100), (5000, 500_000), (999_999, 99_999_900), (Decimal("0.01"), 1), (Decimal("5000.5"), 500_050),
        (Decimal("999999.99"), 99_999_999), ("5000", 500_000), ("0.5", 50), ("5000.50", 500_050), ("000001", 100),
        (Decimal("1e3"), 100_000), (Decimal("1.500"), 150),
    ]:  # fmt: skip
        made = taken(Amount(), given_amount)
        assert (type(made), made) == (int, cents)


def test_what_is_no_amount_is_refused() -> None:
    refused(
        Amount(),
        0,
        -1,
        1_000_000,
        Decimal(0),
        Decimal("-0.01"),
        Decimal("0.001"),
        Decimal("1000000"),
        Decimal("999999.999"),
        Decimal("1e999999"),
        Decimal("1e-999999"),
        Decimal("1e-999999999"),
        Decimal("1e999999999"),
        Decimal("Infinity"),
        Decimal("0e-999999999"),
        Decimal("-1e-999999999"),
        Decimal("0." + "0" * 50_000 + "1"),
        Decimal("1." + "0" * 60),
        Decimal("0.01" + "0" * 40 + "1"),
        "1E-999999999",
        "0." + "0" * 5000 + "1",
        "9" * 60_000,
        10**400,
        True,
        False,
        None,
        "",
        "0",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "1,000",
        "1_000",
        "1e3",
        "0x10",
        "१",
        "１",
        "1.",
        ".5",
        "1.234",
        "1000000",
        "NaN",
        "Infinity",
        "9" * 400,
        [],
        {},
        [1],
        float("nan"),
        float("inf"),
        0.1,
    )
    assert Amount.refusal == "INVALID_AMOUNT"


@given(st.integers(1, 99_999_999))
def test_cents_come_back_as_the_amount_they_were(cents: int) -> None:
    shown = shillings(cents)
    assert taken(Amount(), Decimal(str(shown))) == cents
    assert taken(Amount(), str(Decimal(cents) / 100)) == cents


def test_a_text_keeps_to_its_length_and_has_no_control_characters() -> None:
    field = Text(longest=5, shortest=2, pattern=r"[a-z ]+")
    assert taken(field, "ab c") == "ab c"
    refused(field, "", "a", "abcdef", "ab\n", "ab\x00", "ab\x7f", "AB", 55, None, True, [], {})


def test_a_whole_number_is_an_integer_and_nothing_like_one() -> None:
    field = Whole(lowest=1, highest=100)
    assert [taken(field, number) for number in (1, 50, 100)] == [1, 50, 100]
    refused(
        field, 0, 101, -1, True, False, 1.0, Decimal("1"), Decimal("5.5"), "5", "1_0", None, [], 10**30, float("nan")
    )


def test_in_a_query_a_whole_number_is_ascii_digits() -> None:
    class Page(Query):
        limit = Whole(lowest=1, highest=100)

    assert Page().load({"limit": "50"}) == {"limit": 50}
    for bad in ("", "0", "101", "1_0", " 5", "5 ", "5\n", "+5", "-5", "5.0", "1e1", "५", "５", "9" * 5000, "x"):
        with pytest.raises(ValidationError):
            Page().load({"limit": bad})


def test_a_flag_is_true_or_false() -> None:
    assert taken(Flag(), True) is True
    assert taken(Flag(), False) is False
    refused(Flag(), 1, 0, "true", "false", "", None, [], Decimal(1))


def test_a_timestamp_is_iso_8601_with_its_offset_and_goes_out_in_utc() -> None:
    for text, shown in [
        ("2026-11-20T08:15:30Z", "2026-11-20T08:15:30.000Z"),
        ("2026-11-20T08:15:30.123Z", "2026-11-20T08:15:30.123Z"),
        ("2026-11-20T11:15:30.123456+03:00", "2026-11-20T08:15:30.123Z"),
        ("2024-02-29T00:00:00Z", "2024-02-29T00:00:00.000Z"),
    ]:
        moment = taken(Timestamp(), text)
        assert moment.tzinfo is UTC
        assert iso_milliseconds(moment) == shown
    refused(
        Timestamp(),
        "",
        "2026-11-20",
        "2026-11-20T08:15:30",
        "2026-11-20 08:15:30Z",
        "2026-13-20T08:15:30Z",
        "2026-02-30T08:15:30Z",
        "2026-11-20T25:00:00Z",
        "2026-11-20T08:15:30Z\n",
        "२०२६-11-20T08:15:30Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-23:59",
        "2026-11-20T08:15:30+99:00",
        1_795_000_000,
        None,
        True,
        [],
        "now",
    )
    assert iso_milliseconds(datetime(2026, 11, 20, 8, 15, 30, 999_999, UTC)) == "2026-11-20T08:15:30.999Z"


def test_a_json_object_keeps_its_shape_and_its_size() -> None:
    field = JsonObject(longest=60)
    assert taken(field, {"a": [Decimal("1.5"), {"b": None}]}) == {"a": [1.5, {"b": None}]}
    refused(field, [], "x", 5, None, {"a": "x" * 60}, {"a": Decimal("1e999")})


def test_scopes_are_a_string_or_an_array_of_strings() -> None:
    assert taken(Scopes(), "ussd:read ussd:write") == ("ussd:read", "ussd:write")
    assert taken(Scopes(), ["ussd:read"]) == ("ussd:read",)
    assert taken(Scopes(allow_none=True), None) is None
    refused(Scopes(), 5, {}, True, None, [None], [["ussd:read"]], [5], Decimal(1))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.decimals(allow_nan=False, allow_infinity=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=6,
    )
)
def test_nothing_that_json_can_hold_does_more_than_be_refused(value: Any) -> None:
    for field in (
        PhoneNumber(),
        Amount(),
        Text(longest=9),
        Whole(lowest=0, highest=9),
        Flag(),
        Timestamp(),
        JsonObject(longest=99),
        Scopes(),
    ):
        with contextlib.suppress(ValidationError):
            taken(field, value)


def test_a_time_that_has_to_lie_ahead_has_no_example_which_would_lie_in_the_past() -> None:
    times = [CreatePayoutBody().fields["send_at"], CreateApiKeyBody().fields["expires_at"]]
    assert ["examples" in each.json_schema for each in times] == [False, False]
