"""Forms and queries (`a=1&b=2`) in bounded work."""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

MOST_FIELDS = 400
"""The most fields of a form: fifty rows with five fields, and some more."""
_MOST_ESCAPES = 6000
_END_OF_HEAD = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_MOST_PARTS = 20
_MOST_HEAD_BYTES = 4000
# In one pass, while `replace` searches for each plus anew.
_PLUS_TO_SPACE = bytes.maketrans(b"+", b" ")


class FormError(ValueError):
    """A form or a query that is not read. Its text is one sentence."""


def form_fields(
    text: bytes, most_fields: int = MOST_FIELDS, most_escapes: int = _MOST_ESCAPES
) -> list[tuple[str, str]]:
    """Return the names and values of a form or a query, in their order.

    Raises FormError for more than `most_fields` fields or `most_escapes` percent signs, and for what is not UTF-8.
    """
    if text.count(b"&") >= most_fields:
        raise FormError(f"There are more than {most_fields} fields")
    if text.count(b"%") > most_escapes:
        raise FormError("Too many characters are written as percent signs and digits")
    try:
        return [_field(each) for each in text.split(b"&") if each]
    except UnicodeDecodeError:
        raise FormError("The text is not UTF-8") from None


def check_parts(text: bytes, boundary: bytes) -> None:
    """Check a `multipart/form-data` form before it is read.

    Raises FormError for more than 20 parts, and for heads of parts that have more than 4,000 bytes together.
    """
    parts = text.split(b"--" + boundary, _MOST_PARTS + 2)
    if len(parts) > _MOST_PARTS + 2:
        raise FormError(f"The form has more than {_MOST_PARTS} parts")
    left = _MOST_HEAD_BYTES
    for part in parts[1:]:
        if part.startswith(b"--"):
            continue
        end = _END_OF_HEAD.search(part, 0, left + 4)
        if end is None:
            raise FormError(f"The heads of the form's parts have more than {_MOST_HEAD_BYTES} bytes")
        left -= end.start()


def _field(text: bytes) -> tuple[str, str]:
    name, _, value = text.translate(_PLUS_TO_SPACE).partition(b"=")
    return unquote_to_bytes(name).decode(), unquote_to_bytes(value).decode()
