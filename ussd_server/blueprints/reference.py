"""The API as people read it: the OpenAPI document, laid out as operations and records with tables of fields."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_Json = Mapping[str, Any]
_ENDINGS = ("Record", "Body", "Query")


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field: its name, its type, whether it must be there, what it may hold and what it means."""

    name: str
    kind: str
    is_required: bool
    rule: str
    meaning: str
    record: str | None = None

    @property
    def words(self) -> str:
        """The meaning and the rule in one breath."""
        return " ".join(filter(None, (self.meaning, self.rule)))


@dataclass(frozen=True, slots=True)
class ResponseSection:
    """One way an operation succeeds."""

    status: int
    description: str
    record: str | None
    is_list: bool
    headers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OperationSection:
    """One method of one path."""

    name: str
    tag: str
    method: str
    path: str
    summary: str
    permission: str | None
    security: str
    parameters: tuple[FieldRow, ...]
    body: tuple[FieldRow, ...]
    example: str
    answers: tuple[ResponseSection, ...]
    refusals: tuple[tuple[int, tuple[str, ...]], ...]
    media_types: tuple[str, ...]

    @property
    def is_foreign(self) -> bool:
        """Whether it answers in another language than the API's JSON envelopes."""
        return not self.refusals


@dataclass(frozen=True, slots=True)
class RecordTable:
    """What an answer shows of a thing."""

    name: str
    title: str
    rows: tuple[FieldRow, ...]


def operations(document: _Json) -> list[OperationSection]:
    """Every operation, in the order of the document."""
    return [
        _operation(document, method, path, item)
        for path, methods in document["paths"].items()
        for method, item in methods.items()
    ]


def records(document: _Json) -> list[RecordTable]:
    """Every record that an answer can hold, by name."""
    return [
        RecordTable(name, title_of(name), tuple(_rows(schema)))
        for name, schema in sorted(document["components"]["schemas"].items())
        if name.endswith("Record")
    ]


def title_of(name: str) -> str:
    """`TransactionHistoryRecord` in words: `Transaction history`."""
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
    return words.capitalize().replace("Api key", "API key")


def _operation(document: _Json, method: str, path: str, item: _Json) -> OperationSection:
    media = item.get("requestBody", {}).get("content", {}).get("application/json", {})
    statuses = {int(status): said for status, said in item["responses"].items() if status != "default"}
    example = media.get("example")
    return OperationSection(
        name=item["operationId"],
        tag=item["tags"][0],
        method=method.upper(),
        path=path,
        summary=item["summary"],
        permission=item.get("x-permission"),
        security=next((name for scheme in item["security"] for name in scheme), "none"),
        parameters=tuple(
            _row(p["name"], p["schema"] | {"description": p.get("description", "")}, is_required=p["required"])
            for p in item["parameters"]
        ),
        body=tuple(_rows(_resolve(document, media["schema"]))) if media else (),
        example=json.dumps(example, indent=2) if example else "",
        answers=tuple(_answer(status, said) for status, said in sorted(statuses.items()) if status < 400),
        refusals=tuple(
            (status, tuple(_resolve(document, said)["description"].split(", ")))
            for status, said in sorted(statuses.items())
            if status >= 400
        ),
        media_types=tuple(statuses[200]["content"]) if 200 in statuses else (),
    )


def _answer(status: int, said: _Json) -> ResponseSection:
    schema = said["content"].get("application/json", {}).get("schema", {})
    data = schema.get("properties", {}).get("data", {})
    is_list = data.get("type") == "array"
    reference = (data.get("items", {}) if is_list else data).get("$ref")
    return ResponseSection(
        status, said["description"], reference and reference.rpartition("/")[2], is_list, tuple(said["headers"])
    )


def _rows(schema: _Json) -> Iterator[FieldRow]:
    for name, field in schema.get("properties", {}).items():
        yield _row(name, field, is_required=name in schema.get("required", ()))


def _row(name: str, field: _Json, *, is_required: bool) -> FieldRow:
    kind, record = _kind(field)
    return FieldRow(name, kind, is_required, _rule(field), field.get("description", ""), record)


def _kind(field: _Json) -> tuple[str, str | None]:
    """The type in words, and the record it holds, if it holds one."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return title_of(name).lower(), name
    if "anyOf" in field:
        kinds = [_kind(choice) for choice in field["anyOf"]]
        return " or ".join(kind for kind, _ in kinds), next((record for _, record in kinds if record), None)
    kinds_here = field.get("type", "any")
    kinds_here = kinds_here if isinstance(kinds_here, list) else [kinds_here]
    if "array" in kinds_here and field.get("items"):
        kind, record = _kind(field["items"])
        return " or ".join([f"array of {kind}", *(k for k in kinds_here if k != "array")]), record
    if field.get("format") == "date-time":
        kinds_here = ["time" if kind == "string" else kind for kind in kinds_here]
    return " or ".join(kinds_here), None


def _rule(field: _Json) -> str:
    """What a value must be beyond its type, in words."""
    rules = []
    if choices := [choice for choice in field.get("enum", ()) if choice is not None]:
        rules.append("One of " + ", ".join(f"`{choice}`" for choice in choices) + ".")
    lowest, highest = field.get("minimum"), field.get("maximum")
    if highest is not None:
        rules.append(f"{lowest} to {highest}.")
    shortest, longest = field.get("minLength"), field.get("maxLength")
    if longest is not None:
        rules.append(f"{shortest} to {longest} characters.")
    if "minItems" in field:
        rules.append(f"{field['minItems']} to {field['maxItems']} of them.")
    if any("exclusiveMaximum" in choice for choice in field.get("anyOf", ())):
        rules.append("Greater than 0 and less than 1000000.")
    if "default" in field and field["default"] is not None:
        rules.append(f"Default `{json.dumps(field['default'])}`.")
    return " ".join(rules)


def _resolve(document: _Json, said: _Json) -> _Json:
    if "$ref" not in said:
        return said
    _, section, name = said["$ref"].rsplit("/", 2)
    found: _Json = document["components"][section][name]
    return found
