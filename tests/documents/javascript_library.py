"""The generated modules of the JavaScript library: a method for each operation, and the types of both."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.documents.libraries import (
    CLIENTS,
    Operation,
    item_of,
    models,
    money_fields,
    opaque_fields,
    operations,
    type_of,
)

_FOLDER = CLIENTS / "javascript"
_WORDS = {
    "string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null", "any": "any",
    "array": "Array<{}>", "object": "{{ [name: string]: {} }}", "literal": "{}", "or": " | ",
    "amount": "Amount", "amount_given": "Amount | number | bigint",
}  # fmt: skip
_MADE = "// scripts/document writes this file from the OpenAPI document.\n\n"


def javascript_files(document: dict[str, Any]) -> dict[str, str]:
    """Return the text of each generated file, by its path."""
    code = "\n".join(line for each in operations(document) for line in _methods(each))
    types = "\n".join(line for each in operations(document) for line in _signatures(each, models(document)))
    money, opaque = json.dumps(money_fields(document)), json.dumps(opaque_fields(document))
    return {
        str(_FOLDER / "operations.js"): f'{_MADE}import {{ Transport }} from "./transport.js";\n\n'
        f"/** The fields that are amounts. */\nexport const MONEY = new Set({money});\n"
        f"/** The fields that a client fills as it likes. */\nexport const OPAQUE = new Set({opaque});\n\n"
        f"/** Every operation of the data API. */\nexport class Operations extends Transport {{\n{code}\n}}\n",
        str(_FOLDER / "operations.d.ts"): _MADE
        + '/** Shillings as decimal text, such as "5000.5". */\nexport type Amount = string;\n\n'
        + "\n".join(_model(name, schema) for name, schema in models(document).items())
        + "\n/** Every operation of the data API; those with pages have an iterator too. */\n"
        + f"export class Operations {{\n{types}\n}}\n",
    }


def _model(name: str, schema: dict[str, Any]) -> str:
    if "properties" not in schema:
        return f"export type {name} = {type_of(schema, _WORDS)};"
    required = schema.get("required", [])
    fields = "".join(
        (f"  /** {each['description']} */\n" if "description" in each else "")
        + f"  {field}{'' if field in required else '?'}: {type_of(each, _WORDS)};\n"
        for field, each in schema["properties"].items()
    )
    return f"export interface {name} {{\n{fields}}}"


def _methods(each: Operation) -> Iterator[str]:
    ids = [_camel(name) for name in each.segments]
    path = f'"{each.template}", [{", ".join(ids)}]'
    taken, given = list(ids), []
    if each.body is not None:
        taken.append("body")
        given.append("body")
    if len(each.content_types) > 1:
        given += ["contentType"]
        options = "{ contentType, ...query } = {}" if each.query else "{ contentType } = {}"
    else:
        options = "query" if each.query else ""
    taken += [options] if options else []
    given += ["query"] if each.query else []
    named = f", {{ {', '.join(given)} }}" if given else ""
    call = f'this._call("{each.method}", {path}{named})'
    yield f"  {_camel(each.name)}({', '.join(taken)}) {{\n    return {call};\n  }}\n"
    for kind, ending in each.streams.items():
        name = _camel(f"{each.name}_{ending}")
        call = f'this._stream({path}, {{ query, accept: "{kind}" }})'
        yield f"  {name}({', '.join([*ids, 'query'])}) {{\n    return {call};\n  }}\n"
    if each.iterator:
        page = f"this.{_camel(each.name)}({', '.join([*ids, '{ ...query, cursor }'])})"
        name = _camel(each.iterator)
        yield f"  {name}({', '.join([*ids, 'query'])}) {{\n    return this._pages((cursor) => {page});\n  }}\n"


def _signatures(each: Operation, known: dict[str, Any]) -> Iterator[str]:
    ids = [f"{_camel(name)}: string" for name in each.segments]
    fields = {
        field["name"]: f"{field['name']}{'' if field.get('required') else '?'}: {type_of(field['schema'], _WORDS)}"
        for field in each.query
    }
    is_needed = any(field.get("required") for field in each.query)
    taken = list(ids)
    if each.body is not None:
        kinds = type_of(each.body, _WORDS) + (" | string | Uint8Array" if len(each.content_types) > 1 else "")
        taken.append(f"body{'' if each.needs_body else '?'}: {kinds}")
    typed = ["contentType?: string"] if len(each.content_types) > 1 else []
    if fields or typed:
        taken.append(_options([*fields.values(), *typed], is_needed))
    about = each.about.replace("\n\n", "\n   *\n   * ")
    shown = f"  /**\n   * {about}\n   */\n" if "\n" in about else f"  /** {about} */\n"
    yield shown + f"  {_camel(each.name)}({', '.join(taken)}): Promise<{type_of(each.reply, _WORDS)}>;"
    whole = [value for name, value in fields.items() if name not in ("cursor", "limit")]
    for kind, ending in each.streams.items():
        arguments = ", ".join([*ids, *([_options(whole, is_needed)] if whole else [])])
        name = _camel(f"{each.name}_{ending}")
        yield f"  /** The same as `{kind}`, all of it. */\n  {name}({arguments}): Promise<ReadableStream<Uint8Array>>;"
    if each.iterator:
        item = type_of(item_of(each.reply, known), _WORDS)
        paged = [value for name, value in fields.items() if name != "cursor"]
        arguments = ", ".join([*ids, _options(paged, is_needed)])
        about = f"Iterate over all pages of `{_camel(each.name)}`."
        yield f"  /** {about} */\n  {_camel(each.iterator)}({arguments}): AsyncGenerator<{item}, void>;"


def _options(fields: list[str], is_needed: bool) -> str:
    return f"query{'' if is_needed else '?'}: {{ {'; '.join(fields)} }}"


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found.group(1).upper(), name)
