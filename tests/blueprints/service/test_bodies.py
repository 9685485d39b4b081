"""Reading a request's body takes time in proportion to its length, and ends in a value or in a refusal."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from flask import Request
from werkzeug.test import EnvironBuilder

from schemas.fields import Amount, Body
from ussd_server.api.requests import MAX_BODY_BYTES, load, parse_object, read_body
from ussd_server.status import Code, ServiceError


class Payment(Body):
    """A body with an amount and nothing else."""

    amount_cents = Amount(required=True, data_key="amount")


def parse(body: bytes) -> dict[str, Any]:
    """Parse a body as an endpoint does."""
    environ = EnvironBuilder(method="POST", data=body, content_type="application/json").get_environ()
    request = Request(environ)
    return parse_object(request, read_body(request.environ))


@pytest.mark.timeout(5)
@pytest.mark.parametrize(
    "unit", [b'\\"', b'"', b"\\", b"\\\\", b'"\\', b'\\u0000"', b'["', b'{"":', b'"a', b"\\u"], ids=repr
)
def test_no_body_is_slow_to_read(unit: bytes) -> None:
    for beginning in (b"[" * 40, b"{" * 33 + b'"', b'{"a":"'):
        with pytest.raises(ServiceError) as refusal:
            parse((beginning + unit * MAX_BODY_BYTES)[:MAX_BODY_BYTES])
        assert refusal.value.code is Code.INVALID_REQUEST


@pytest.mark.parametrize("brackets", [b"[" * 32, b'{"a":' * 32])
def test_brackets_inside_strings_do_not_nest(brackets: bytes) -> None:
    text = brackets.decode().replace('"', '\\"')
    assert parse(b'{"a":"' + text.encode() + b'"}') == {"a": brackets.decode()}


@pytest.mark.parametrize(
    "number",
    [
        "1e999999",
        "1e9999999999999999999",
        "1e-9999999999999999999",
        "-1e9999999999999999999",
        "1e" + "9" * 4000,
        "1." + "0" * 40 + "1",
        "1." + "0" * 60_000 + "1",
        "0." + "0" * 60_000 + "1",
        "5000.001",
        "0.001",
        "1e-3",
        "NaN",
        "Infinity",
        "-Infinity",
        "1E-999999999",
        "1e-1000001",
        "0e-999999999",
        "1e999999999",
        "9" * 5000,
        "-" + "9" * 5000,
        "9" * 60_000,
    ],
)
def test_a_number_that_is_no_amount_is_refused_however_it_is_written(number: str) -> None:
    with pytest.raises(ServiceError) as refusal:
        load(Payment(), parse(b'{"amount":' + number.encode() + b"}"))
    assert refusal.value.code is Code.INVALID_AMOUNT


@pytest.mark.parametrize(
    ("number", "cents"), [("5e3", 500_000), ("5000.50", 500_050), ("1E-2", 1), ("5000.000", 500_000)]
)
def test_an_amount_is_the_same_however_it_is_written(number: str, cents: int) -> None:
    assert load(Payment(), parse(b'{"amount":' + number.encode() + b"}")) == {"amount_cents": cents}


def test_numbers_keep_every_digit() -> None:
    assert parse(b'{"a":0.1}') == {"a": Decimal("0.1")}
