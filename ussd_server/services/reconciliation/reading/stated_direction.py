"""What operators say of a whole file whose lines do not show whether the money came in or went out."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OUR_NUMBER = re.compile(r"\+?[0-9]{5,15}", re.ASCII)
_PARTY = re.compile(r"(?:FRI:)?\+?([0-9]{5,15})(?:/[A-Z]{1,10})?", re.ASCII | re.IGNORECASE)
_COUNTRY, _NATIONAL_DIGITS = "256", 9


@dataclass(frozen=True, slots=True)
class StatedDirection:
    """`all_in`: every line came in. `our_number` is our phone or account: it stands where the money came from or went.

    A number with a country code and one without it are the same.
    """

    all_in: bool = False
    our_number: str | None = None

    @property
    def problem(self) -> str | None:
        """Why no file can be read so, as a sentence; None where one can."""
        if self.our_number is None:
            return None
        if self.all_in:
            return "Either every line came in, or our number says which."
        return None if _OUR_NUMBER.fullmatch(self.our_number) else "Our number must be 5 to 15 digits."

    def of(self, sender: str, receiver: str) -> int:
        """1 for money to us, -1 for money from us, 0 where nothing is stated.

        Raises ValueError for a line with our number on neither side, or on both.
        """
        if self.our_number is None:
            return int(self.all_in)
        ours = _digits(self.our_number)
        is_from_us, is_to_us = _digits(sender) == ours, _digits(receiver) == ours
        if is_from_us is is_to_us:
            raise ValueError(f"our number {self.our_number} is {'on both sides' if is_to_us else 'on neither side'}.")
        return 1 if is_to_us else -1


NOT_STATED = StatedDirection()


def _digits(party: str) -> str:
    """The digits of a party such as `FRI:256772123456/MSISDN` or `0772123456`, without country code; else empty."""
    written = _PARTY.fullmatch(party)
    if written is None:
        return ""
    digits = written[1]
    if len(digits) == len(_COUNTRY) + _NATIONAL_DIGITS:
        return digits.removeprefix(_COUNTRY)
    return digits[1:] if len(digits) == _NATIONAL_DIGITS + 1 and digits[0] == "0" else digits
