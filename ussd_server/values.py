"""Values that all parts of the service write alike: phone numbers, amounts (whole cents inside), moments and ids."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from itertools import count
from random import getrandbits
from typing import TypeVar, dataclass_transform
from unicodedata import category, normalize

KAMPALA = timezone(timedelta(hours=3))

# ASCII classes and `fullmatch` throughout: `\d` takes the digits of every script, and `$` a trailing newline.
PHONE_NUMBER = re.compile(r"\+256[0-9]{9}")
"""A phone number as the service keeps and writes it."""

# Characters without a glyph that are no format characters: fillers, joiners, variation selectors.
_WITHOUT_GLYPH = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | frozenset(
    map(chr, [*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0)])
)
_TYPED_PHONE_NUMBER = re.compile(r"(?:\+?256|0(?=[1-9]))([0-9]{9})")
_AMOUNT_TEXT = re.compile(r"[0-9]{1,12}(\.[0-9]{1,2})?")
_EXACT_DIGITS = 28
_MINUS = "\u2212"

_Made = TypeVar("_Made")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def unchanging(made: type[_Made]) -> type[_Made]:
    """Make a dataclass that only mypy keeps from being changed: a step makes a dozen, each in a quarter of the time."""
    return dataclass(slots=True, unsafe_hash=True)(made)


def phone_number(typed: str) -> str | None:
    """Return `+256` and nine digits, also of `256772123456` and `0772123456`; None for any other text.

    Drops what comes along where people paste: marks without a glyph, and spaces and hyphens beyond ASCII.
    """
    match = _TYPED_PHONE_NUMBER.fullmatch(typed if typed.isascii() else without_marks(typed, spaces_too=True))
    return f"+256{match[1]}" if match else None


def without_marks(text: str, *, spaces_too: bool = False) -> str:
    """Return a text without marks that have no glyph, such as U+200E; with `spaces_too` without other spaces and
    hyphens than those of ASCII.
    """
    if text.isascii():
        return text
    return "".join(each for each in text if each.isascii() or not _is_mark(each, spaces_too=spaces_too))


def mark_in(text: str) -> str | None:
    """Return the first character of a text that people do not see or take for another, as `U+200E`; None for none."""
    mark = next((each for each in text if not each.isascii() and _is_mark(each, spaces_too=True)), None)
    return None if mark is None else f"U+{ord(mark):04X}"


def _is_mark(character: str, *, spaces_too: bool) -> bool:
    kind = category(character)
    return kind == "Cf" or character in _WITHOUT_GLYPH or (spaces_too and kind in ("Zs", "Pd"))


def national_number(phone_number: str) -> str:
    """Return the nine digits of a phone number without the code of Uganda."""
    return phone_number.removeprefix("+256")


LONGEST_RECEIPT = 200
"""The characters that a receipt has at most, whoever tells of it."""


def canonical_receipt(written: str) -> str:
    """The form in which receipts of providers and references of banks are compared; empty for nothing but spaces.

    NFKC, upper case, without spaces, hyphens and characters without a glyph.
    """
    letters = normalize("NFKC", normalize("NFKC", written).upper())
    return "".join(each for each in letters if not _is_left_out(each))


def comparable_receipt(written: str) -> str:
    """As `canonical_receipt`; as it is written where nothing would be left."""
    return canonical_receipt(written) or written


def _is_left_out(letter: str) -> bool:
    return letter == _MINUS or is_invisible(letter) or letter.isspace() or category(letter) == "Pd"


def is_invisible(character: str) -> bool:
    """Return whether a character shows nothing and takes no place."""
    return character in _WITHOUT_GLYPH or category(character) in ("Cf", "Cc")


def cents_of(amount: object, least: Decimal = Decimal("0.01"), below: Decimal = Decimal(1_000_000)) -> int | None:
    """Return the cents of an amount in shillings: a whole number, a Decimal, or digits with at most two decimals.

    None for anything else, and unless the amount is `least` or more and less than `below` shillings.
    """
    if isinstance(amount, str) and _AMOUNT_TEXT.fullmatch(amount):
        amount = Decimal(amount)
    # Check the size first: 1e999999 must not be multiplied out, and 1e-999999999 times 100 is rounded to zero.
    # A bool is an int to Python.
    if isinstance(amount, bool) or not isinstance(amount, int | Decimal) or not least <= amount < below:
        return None
    number = Decimal(amount)
    cents = number * 100
    # Longer numbers would be rounded by the multiplication.
    if len(number.as_tuple().digits) > _EXACT_DIGITS or cents != cents.to_integral_value():
        return None
    return int(cents)


def shillings(cents: int) -> int | float:
    """An amount as the API writes it, with no more decimals than it needs: `5000` or `5000.5`."""
    return cents // 100 if cents % 100 == 0 else cents / 100


def ungrouped(cents: int) -> str:
    """An amount of at least 0 as forms and texts hold it: `5000` or `99.50`."""
    whole, rest = divmod(cents, 100)
    return f"{whole}.{rest:02}" if rest else str(whole)


def grouped(cents: int) -> str:
    """An amount of at least 0 as people read it: `5,000` or `99.50`."""
    whole, rest = divmod(cents, 100)
    return f"{whole:,}.{rest:02}" if rest else f"{whole:,}"


def written_amount(cents: int) -> str:
    """An amount with its sign and currency as people read it: `UGX 5,000` or `−UGX 99.50`."""
    return f"{'−' if cents < 0 else ''}UGX {grouped(abs(cents))}"


@lru_cache(maxsize=256)
def counted(count: int, noun: str) -> str:
    """How many there are of what, in English: `1 row`, `1,200 rows`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def iso_milliseconds(moment: datetime) -> str:
    """Return `2026-11-20T08:15:30.123Z`, the form of all moments on the wire."""
    in_utc = moment if moment.tzinfo is UTC else moment.astimezone(UTC)
    return f"{in_utc.isoformat(timespec='milliseconds')[:-6]}Z"


def kampala_day(moment: datetime) -> str:
    """The day of a moment in Kampala: `2026-11-20`."""
    return moment.astimezone(KAMPALA).date().isoformat()


def days_about(begin: datetime, end: datetime) -> set[str]:
    """The days in Kampala between two moments, with the one before and the one after them."""
    begin, end = begin - _DAY, end + _DAY
    return {kampala_day(begin + step * _DAY) for step in range((end - begin).days + 2)}


def bounds_of_day(day: date) -> tuple[datetime, datetime]:
    """The first moment of a day in Kampala, and that of the next day."""
    begin = datetime(day.year, day.month, day.day, tzinfo=KAMPALA)
    return begin, begin + _DAY


def moment_of(text: str) -> datetime | None:
    """Return the moment that an ISO 8601 text with an offset names; None for any other text."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


_DAY = timedelta(days=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_counter = count(getrandbits(31))
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def new_id(moment: datetime, after: str | None = None) -> str:
    """Return the id of a row created at `moment` (UTC). Ids sort by creation time in milliseconds.

    Ids of one process and one millisecond sort in the order of creation. The clocks of processes differ: the new id is
    greater than `after`, the id of a row that this row must follow.
    """
    # 32 bits of counter and 40 random bits. The counter begins in its lower half, so that it never wraps.
    counted = f"{next(_counter) & 0xFFFFFFFF:08x}"
    rest = f"7{counted[:3]}-8{counted[3:6]}-{counted[6:]}{getrandbits(40):010x}"
    made_id = f"{_time_part(moment)}-{rest}"
    if after is None or made_id > after:
        return made_id
    return f"{_time_digits(int(after[:8] + after[9:13], 16) + 1)}-{rest}"


def new_id_floor(moment: datetime) -> str:
    """Return the smallest id that a row created at `moment` can have. Compare ids with it to compare times."""
    return f"{_time_part(moment)}-7000-8000-000000000000"


_WITHOUT_HYPHENS = re.compile(r"([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})")


def with_hyphens(text: str) -> str:
    """An id in lower case with hyphens, from one in any case with or without them; other text in lower case."""
    return _WITHOUT_HYPHENS.sub(r"\1-\2-\3-\4-\5", text.lower()) if len(text) == 32 else text.lower()


def is_id(text: str) -> bool:
    """Return whether `text` is an id in lower-case hexadecimal with dashes."""
    return bool(_ID.fullmatch(text))


@lru_cache(maxsize=256)
def _time_part(moment: datetime) -> str:
    """Return the first 48 bits of an id: milliseconds since 1970."""
    # In whole numbers: a float would round some moments into the millisecond before.
    return _time_digits(max(0, (moment - _EPOCH) // _MILLISECOND))


def _time_digits(milliseconds: int) -> str:
    digits = f"{milliseconds:012x}"[-12:]
    return f"{digits[:8]}-{digits[8:]}"
