"""Reads the text of a document, in YAML or JSON."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path as FilePath
from typing import Any

from ussd_server.menus.source.yaml_text import (
    LONGEST_NUMBER,
    MAX_DEPTH,
    Places,
    Position,
    SourceError,
    json_places,
    read_yaml,
)
from ussd_server.parsing.json_text import DuplicateNameError, duplicate_name, is_deeper, object_of_pairs

MOST_BYTES = 64 * 1024
"""The largest document, by whatever way it comes."""
_MEANINGS = {
    "property name": "a name in double quotes has to stand here; is there a comma too many before it?",
    "trailing comma": "there is a comma too many before the closing bracket",
    "Expecting ','": "a comma or the closing bracket is missing",
    "Expecting ':'": "a `:` is missing after a name",
    "Expecting value": "a value is missing; texts need double quotes",
    "Unterminated string": "the text that begins here has no closing quote",
    "control character": "a line break or a tab stands within a text; write \\n or \\t",
    "escape": "the backslash begins no known letter; write two of them",
    "Extra data": "something follows the end of the document",
}
"""By what the parser says: what is wrong, and what to do."""
# In JSON that is written anew: half of a surrogate pair, or an escaped NUL.
_UNWRITABLE = re.compile(r"[\ud800-\udfff]|(?<!\\)(?:\\\\)*\\u0000")


def read_json(text: str) -> tuple[dict[str, Any], Places]:
    """Return the object in a JSON text, and the positions in it.

    Raises `SourceError` for anything else, more than 32 levels, long and infinite numbers, NUL and lone surrogates.
    """
    try:
        document = json.loads(
            text,
            object_pairs_hook=object_of_pairs,
            parse_constant=_refuse_constant,
            parse_int=_whole,
            parse_float=_decimal,
        )
    except json.JSONDecodeError as error:
        place = Position(error.lineno, error.colno)
        said = next((meaning for said, meaning in _MEANINGS.items() if said in error.msg), "it cannot be read here")
        raise SourceError(f"The text is not valid JSON: {said}", place) from None
    except DuplicateNameError:
        raise _given_twice(text) from None
    except RecursionError:
        raise _too_deep() from None
    if is_deeper(document, MAX_DEPTH):
        raise _too_deep()
    if "\\u" in text and _UNWRITABLE.search(json.dumps(document, ensure_ascii=False)):
        raise SourceError("The text contains a NUL character or half of a surrogate pair")
    if not isinstance(document, dict):
        raise SourceError("The document has to be an object with fields such as `id`, `start` and `nodes`")
    return document, json_places(text)


def read_text(text: str, *, is_yaml: bool) -> tuple[dict[str, Any], Places]:
    """Return the object in a text, and the positions in it.

    Raises `SourceError` when the text holds no object, and before reading one of more than 64 KiB.
    """
    if len(text) > MOST_BYTES or len(text.encode(errors="replace")) > MOST_BYTES:
        raise SourceError(f"The document is larger than {MOST_BYTES // 1024} KiB")
    return read_yaml(text) if is_yaml else read_json(text)


def read_menu_file(path: FilePath) -> tuple[dict[str, Any], Places]:
    """Read the document in a file, as JSON when its name ends in `.json`.

    Raises OSError, or `SourceError`, whose message begins with the path.
    """
    try:
        return read_text(path.read_text(encoding="utf-8"), is_yaml=path.suffix != ".json")
    except SourceError as error:
        raise SourceError(f"{path}: {error}") from None
    except UnicodeDecodeError:
        raise SourceError(f"{path}: The file is not UTF-8") from None


def _given_twice(text: str) -> SourceError:
    twice = duplicate_name(text)
    if twice is None:
        return SourceError("A name is given twice in one object")
    place = Position(twice.line, twice.column)
    return SourceError(f"The name `{twice.name[:64]}` is given twice in one object", place)


def _too_deep() -> SourceError:
    return SourceError(f"The document is nested deeper than {MAX_DEPTH} levels")


def _whole(text: str) -> int:
    if len(text) > LONGEST_NUMBER:
        raise SourceError(f"A number has at most {LONGEST_NUMBER} digits; write a text in quotes")
    return int(text)


def _decimal(text: str) -> float:
    number = float(text) if len(text) <= LONGEST_NUMBER else math.inf
    if not math.isfinite(number):
        raise SourceError("The number is too long or too large; write a text in quotes")
    return number


def _refuse_constant(name: str) -> Any:
    raise SourceError(f"The text is not valid JSON: `{name}` is not a number")
