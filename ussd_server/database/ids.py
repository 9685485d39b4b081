"""Ids of rows: UUIDs of version 7, as lower-case text with dashes."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import count
from random import getrandbits

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
