"""The payment codes that a payer may have meant."""

from __future__ import annotations

import string
from collections.abc import Iterator
from typing import Any

from ussd_server.models.incoming import PaymentCode
from ussd_server.services.incoming.booking import takes_amount

_MOST_SUGGESTED = 3
_LETTERS = string.ascii_uppercase + string.digits
_LONGEST_CODE = 20


def similar_codes(typed: str, amount_cents: int, *conditions: Any) -> list[PaymentCode]:
    """Up to three codes that are as typed, or differ by one slip: a wrong, missing, doubled or exchanged letter.

    `typed` is in the form of `codes.canonical`. The typed code is first, then come those that take the amount.
    """
    if not 1 < len(typed) <= _LONGEST_CODE:
        return []
    codes = PaymentCode.select().where(PaymentCode.code.in_({typed, *with_one_slip(typed)}), *conditions)
    ordered = sorted(codes, key=lambda code: (code.code != typed, not takes_amount(code, amount_cents), code.code))
    return ordered[:_MOST_SUGGESTED]


def with_one_slip(typed: str) -> Iterator[str]:
    """Everything that differs from a code by one slip."""
    for index in range(len(typed) + 1):
        before, after = typed[:index], typed[index:]
        for letter in _LETTERS:
            yield f"{before}{letter}{after[1:]}"
            yield f"{before}{letter}{after}"
        if after[:1] == before[-1:]:
            yield f"{before}{after[1:]}"
        if len(after) > 1:
            yield f"{before}{after[1]}{after[0]}{after[2:]}"
