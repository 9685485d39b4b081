"""Reads the text of a document, in YAML or JSON."""

from __future__ import annotations

import json
from pathlib import Path as FilePath
from typing import Any

from ussd_server.json_text import duplicate_name
from ussd_server.menus.source.places import Places, Position, SourceError, json_places
from ussd_server.menus.source.yaml_text import read_yaml

MOST_BYTES = 64 * 1024
"""The largest document, by whatever way it comes."""


def read_json(text: str) -> tuple[dict[str, Any], Places]:
    """Return the object in a JSON text, and the positions in it. Raises `SourceError` for anything else."""
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        place = Position(error.lineno, error.colno)
        raise SourceError(f"The text is not valid JSON: {error.msg}", place) from None
    except RecursionError:
        raise SourceError("The text is not valid JSON: it is nested too deeply") from None
    except SourceError:
        raise
    except ValueError:
        # Python converts no number of more than 4,300 digits.
        raise SourceError("The text is not valid JSON: a number has too many digits") from None
    if not isinstance(document, dict):
        raise SourceError("The document has to be an object with fields such as `id`, `start` and `nodes`")
    twice = duplicate_name(text)
    if twice is not None:
        raise SourceError(
            f"The name `{twice.path[-1][:64]}` is given twice in one object", Position(twice.line, twice.column)
        )
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


def _refuse_constant(name: str) -> Any:
    raise SourceError(f"The text is not valid JSON: `{name}` is not a number")
