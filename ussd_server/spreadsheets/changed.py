"""Numbers of texts that a spreadsheet program changed when it saved a file: their last digits may be lost."""

from __future__ import annotations

import re

# How programs show a long number in a narrow column.
_SHORTENED = re.compile(r"[0-9]+([.,][0-9]+)?[eE]\+[0-9]+")
# A number with decimals or thousands, signs in place of digits, the name of an error.
_CHANGED = re.compile(r"[0-9]+\.0+|[0-9]{1,3}(,[0-9]{3})+|#+|#[A-Z0/]+[!?A]")


def is_shortened(text: str) -> bool:
    """Whether a text is a number such as `3.1E+10`."""
    return _SHORTENED.fullmatch(text) is not None


def is_changed(text: str) -> bool:
    """Whether the id in a text is shortened, or has become `31000000001.0`, `31,000,000,001`, `####` or `#N/A`."""
    return is_shortened(text) or _CHANGED.fullmatch(text) is not None
