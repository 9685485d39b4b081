"""The generated modules of the Python library: a method for each operation and a type for each model."""

from __future__ import annotations

import keyword
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from tests.documents.libraries import CLIENTS, Operation, item_of, models, money_fields, operations, type_of

_FOLDER = CLIENTS / "python/ussd_client"
_JSON = "application/json"
_WORDS = {
    "string": "str", "integer": "int", "number": "int | Decimal", "boolean": "bool", "null": "None", "any": "Any",
    "array": "list[{}]", "object": "dict[str, {}]", "literal": "Literal[{}]", "or": ", ",
    "amount": "Amount", "amount_given": "Amount | str",
}  # fmt: skip
_MADE = "scripts/document writes this file from the OpenAPI document."


def python_files(document: dict[str, Any]) -> dict[str, str]:
    """Return the text of each generated file, by its path."""
    return {
        str(_FOLDER / "models.py"): _formatted(_models(document)),
        str(_FOLDER / "operations.py"): _formatted(_operations(document)),
    }


def _formatted(text: str) -> str:
    for words in (["check", "--select", "F401,I", "--fix", "--quiet"], ["format"]):
        command = [sys.executable, "-m", "ruff", *words, "--stdin-filename", str(_FOLDER / "made.py"), "-"]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


def _models(document: dict[str, Any]) -> str:
    known = models(document)
    head = f'"""What the API takes and returns. {_MADE}"""\n\nfrom __future__ import annotations\n\n'
    head += "from decimal import Decimal\nfrom typing import TYPE_CHECKING, Any, Literal, TypedDict\n\n"
    # Python 3.10 has none in `typing`; type checkers know it from here.
    head += "if TYPE_CHECKING:\n    from typing_extensions import NotRequired  # noqa: UP035\n\n"
    head += f"Amount = int | Decimal\nMONEY = frozenset({money_fields(document)})\n"
    return head + "\n\n".join(_model(name, schema) for name, schema in _simple_first(known))


def _simple_first(known: dict[str, Any]) -> list[tuple[str, Any]]:
    """Aliases are evaluated when the module is read, so they come first."""
    return sorted(known.items(), key=lambda each: "properties" in each[1])


def _model(name: str, schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"{name} = {type_of(schema, _WORDS)}\n"
    required = schema.get("required", [])
    fields = {
        field: type_of(each, _WORDS) if field in required else f"NotRequired[{type_of(each, _WORDS)}]"
        for field, each in schema["properties"].items()
    }
    if any(map(keyword.iskeyword, fields)):
        listed = "".join(f'"{field}": {kind!r}, ' for field, kind in fields.items())
        return f'{name} = TypedDict("{name}", {{{listed}}})\n'
    return f"class {name}(TypedDict):\n" + "".join(f"    {field}: {kind}\n" for field, kind in fields.items())


def _operations(document: dict[str, Any]) -> str:
    known = models(document)
    methods = "\n".join(method for each in operations(document) for method in _methods(each, known))
    names = ", ".join(name for name in ("Amount", *known) if re.search(rf"\b{name}\b", methods))
    return f'''"""Every operation of the data API. {_MADE}"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, cast

from ussd_client.models import {names}
from ussd_client.transport import Transport


class Operations(Transport):
    """One method for each operation; those with pages have an iterator too."""

{methods}'''


def _methods(each: Operation, known: dict[str, Any]) -> Iterator[str]:
    reply = type_of(each.reply, _WORDS)
    ids = [f"{name}: str" for name in each.segments]
    segments = "".join(f", {name}" for name in each.segments)
    named = {field["name"]: _argument(field) for field in each.query}
    given = [f'"{each.method}", "{each.template}"{segments}']
    taken, typed = list(ids), []
    if each.body is not None:
        kinds = type_of(each.body, _WORDS) + (" | bytes" if len(each.content_types) > 1 else "")
        taken.append(f"body: {kinds}" if each.needs_body else f"body: {kinds} | None = None")
        given.append("body=body")
        if len(each.content_types) > 1:
            typed = [f'content_type: str = "{_JSON}"']
            given.append("content_type=content_type")
    if named:
        given.append(f"query={_query(named)}")
    call = f'cast("{reply}", self._call({", ".join(given)}))'
    yield _method(each.name, taken, [*named.values(), *typed], reply, each.about, call)
    whole = {name: value for name, value in named.items() if name not in ("cursor", "limit")}
    for kind, ending in each.streams.items():
        call = f'self._stream("{each.template}"{segments}, query={_query(whole)}, accept="{kind}")'
        about = f"Yield the parts of the same as `{kind}`, all of it."
        yield _method(f"{each.name}_{ending}", ids, [*whole.values()], "Iterator[bytes]", about, call)
    if each.iterator:
        item = type_of(item_of(each.reply, known), _WORDS)
        arguments = [value for name, value in named.items() if name != "cursor"]
        passed = "".join(f", {_safe(name)}={_safe(name)}" for name in named if name != "cursor")
        page = f"self.{each.name}({', '.join([*each.segments, 'cursor=cursor'])}{passed})"
        about = f"Iterate over all pages of `{each.name}`."
        yield _method(each.iterator, ids, arguments, f"Iterator[{item}]", about, f"self._pages(lambda cursor: {page})")


def _method(name: str, positional: list[str], named: list[str], returns: str, about: str, call: str) -> str:
    arguments = ", ".join(["self", *positional, *(["*", *named] if named else [])])
    lines = [line for part in about.split("\n") for line in (textwrap.wrap(part, 104) or [""])]
    text = "\n".join(
        [lines[0], *(f"        {line}".rstrip() for line in lines[1:]), *(["        "] if lines[1:] else [])]
    )
    return f'    def {name}({arguments}) -> {returns}:\n        """{text}"""\n        return {call}\n'


def _query(named: Iterable[str]) -> str:
    return "{" + ", ".join(f'"{name}": {_safe(name)}' for name in named) + "}"


def _argument(field: dict[str, Any]) -> str:
    kind = type_of(field["schema"], _WORDS)
    return f"{_safe(field['name'])}: {kind}" + ("" if field.get("required") else " | None = None")


def _safe(name: str) -> str:
    return f"{name}_" if keyword.iskeyword(name) else name
