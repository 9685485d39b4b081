"""Amounts on the command line: shillings outside, whole cents inside."""

from __future__ import annotations

import re
from decimal import Decimal

import click

from ussd_server.values import cents_of

_BELOW = Decimal(10) ** 13
# As the service itself writes amounts.
_GROUPED = re.compile(r"(?:UGX )?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]{1,2})?")


class Shillings(click.ParamType[int]):
    """Digits with at most two decimals, also as the service writes them (5,000), from `least_cents` on.

    The option's value is in cents.
    """

    name = "shillings"

    def __init__(self, least_cents: int = 1) -> None:
        self._least_cents = least_cents

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Cents of what was typed."""
        if isinstance(value, int):
            return value
        plain = value.removeprefix("UGX ").replace(",", "") if _GROUPED.fullmatch(value) else value
        cents = cents_of(plain, Decimal(self._least_cents) / 100, _BELOW)
        if cents is None:
            least = "0 shillings or more" if self._least_cents == 0 else "more than 0 shillings"
            self.fail(f"{value!r} must be {least}, such as 5000 or 5000.50", param, ctx)
        return cents
