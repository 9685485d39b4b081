"""The kinds of fields of a menu document: how a field is read, and its JSON Schema.

A class declares the fields of one object: `goto: Annotated[str, NODE, "the next node"]`. Its reader, its JSON Schema
and its table in docs/reference/ are made of that declaration. A field whose class gives a default may be absent.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from ussd_server.menus.document import expressions
from ussd_server.menus.document.bounds import MAX_ASSIGNMENTS
from ussd_server.menus.document.expressions import Assignments, Expression, Name, constant
from ussd_server.menus.document.fields import DocumentFields
from ussd_server.menus.document.findings import shorten
from ussd_server.menus.document.templates import Template
from ussd_server.menus.document.variables import MAX_ITEMS, MAX_TEXT
from ussd_server.wire import Key

Schema = dict[str, Any]
MAIN_ACCOUNT = constant("main")
_LONGEST_PATH = 100
_DEEPEST_BODY = 5
KEY = re.compile(r"[0-9A-Za-z]{1,4}", re.ASCII)
MAX_METADATA = 10
_METADATA_NAME = re.compile(r"[0-9A-Za-z_-]{1,40}", re.ASCII)

_Declared = TypeVar("_Declared")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a field may hold. `read` gets the object and the name of the field, and returns its value.

    A kind that `reads_absent` also gives the value of an absent field, where it depends on the object.
    """

    schema: Schema
    read: Callable[[DocumentFields, str], Any]
    reads_absent: bool = False


class DeclaredField(NamedTuple):
    """A field of a class: its name in the document, its attribute, its kind and its meaning."""

    name: str
    attribute: str
    kind: Kind
    meaning: str
    has_default: bool


def _declared(kind: Any) -> tuple[DeclaredField, ...]:
    """Return the fields of a class that a document has, in their order."""
    defaults = inspect.signature(kind).parameters
    declared_fields = []
    for attribute, hint in get_type_hints(kind, include_extras=True).items():
        about = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
        read_as = next((each for each in about if isinstance(each, Kind)), None)
        if read_as is not None:
            name = next((each.name for each in about if isinstance(each, Key)), attribute)
            meaning = next(each for each in about if isinstance(each, str))
            has_default = defaults[attribute].default is not inspect.Parameter.empty
            declared_fields.append(DeclaredField(name, attribute, read_as, meaning, has_default))
    return tuple(declared_fields)


declared: Callable[[Any], tuple[DeclaredField, ...]] = cache(_declared)


def read_object(kind: type[_Declared], fields: DocumentFields, **attributes: Any) -> _Declared:
    """Read the declared fields of a class and refuse all others; `attributes` are its other ones."""
    values = {
        each.attribute: each.kind.read(fields, each.name)
        for each in declared(kind)
        if each.kind.reads_absent or not each.has_default or fields.value(each.name) is not None
    }
    fields.refuse_others()
    return kind(**attributes, **values)


def object_schema(kind: type) -> Schema:
    """Return the JSON Schema of an object with the fields of a class."""
    return fields_schema(declared(kind))


def fields_schema(fields: Sequence[DeclaredField]) -> Schema:
    """Return the JSON Schema of an object with these fields."""
    return {
        "type": "object",
        "properties": {each.name: {**each.kind.schema, "description": each.meaning} for each in fields},
        "required": [each.name for each in fields if not (each.has_default or each.kind.reads_absent)],
        "additionalProperties": False,
    }


def described(kind: type) -> Schema:
    """Return the JSON Schema of an object with the docstring of its class."""
    return {"description": inspect.getdoc(kind), **object_schema(kind)}


def ref(name: str) -> Schema:
    """Refer to a definition."""
    return {"$ref": f"#/$defs/{name}"}


def array(items: Schema, most: int = 100, fewest: int = 0) -> Schema:
    """A list."""
    return {"type": "array", "items": items, "maxItems": most, "minItems": fewest}


def mapping(values: Schema, most: int | None = None, names: str | None = None) -> Schema:
    """An object whose names the author chooses."""
    schema: Schema = {"type": "object", "additionalProperties": values}
    if most is not None:
        schema["maxProperties"] = most
    return schema if names is None else {**schema, "propertyNames": {"pattern": names}}


def string(longest: int = 200) -> Kind:
    """A text of 1 to `longest` characters."""
    return Kind(
        {"type": "string", "minLength": 1, "maxLength": longest},
        lambda fields, name: fields.string(name, longest=longest),
    )


def whole(low: int, high: int) -> Kind:
    """A whole number within bounds."""
    return Kind(
        {"type": "integer", "minimum": low, "maximum": high},
        lambda fields, name: fields.integer(name, None, low, high),
    )


def one_of(*values: str) -> Kind:
    """One of a few texts."""
    return Kind({"enum": list(values)}, lambda fields, name: fields.string(name, choices=values))


def record(kind: type) -> Kind:
    """An object with the fields of a class."""
    return Kind(object_schema(kind), lambda fields, name: read_object(kind, fields.within(fields.value(name), name)))


def part(kind: type) -> Kind:
    """An object with the fields of a class, read as an empty one where it is something else."""
    return Kind(object_schema(kind), lambda fields, name: read_object(kind, fields.within(fields.entries(name), name)))


def listed(
    read: Callable[[DocumentFields], Any], schema: Schema, most: int = 100, fewest: int = 0, missing: str = ""
) -> Kind:
    """A list of objects, each read by `read`. `missing` refuses an empty one."""

    def read_list(fields: DocumentFields, name: str) -> tuple[Any, ...]:
        raw_items = fields.items(name, most)
        if missing and not raw_items:
            fields.refuse(missing, at=name)
        return tuple(read(fields.within(raw, f"{name}.{number}")) for number, raw in enumerate(raw_items, start=1))

    return Kind(array(schema, most, fewest), read_list)


def records(kind: type, most: int = 100, fewest: int = 0, missing: str = "") -> Kind:
    """A list of objects with the fields of a class."""
    return listed(partial(read_object, kind), object_schema(kind), most, fewest, missing)


def _branch(fields: DocumentFields, name: str) -> str:
    """Read the next node of an outcome: its name, `{"goto": name}`, or `{"end": text}` for a last screen."""
    raw = fields.value(name)
    if raw is None:
        ways = '{"goto": "..."} or {"end": {...}}'
        fields.refuse(f"`{name}` is missing; write a node's name, {ways}", at=name)
        return ""
    if isinstance(raw, str):
        return fields.identifier(name)
    branch = fields.within(raw, name)
    goto = branch.identifier("goto") if branch.value("goto") is not None else None
    text = branch.text("end") if branch.value("end") is not None else None
    has_end = isinstance(branch.value("end"), str | Mapping)
    branch.refuse_others()
    if (goto is not None) == has_end:
        branch.refuse(f"`{name}` needs either `goto` or `end`")
    if text is None or not has_end:
        return goto or ""
    fields.reading.last_screens[f"{fields.node}.{name}"] = text
    return f"{fields.node}.{name}"


def _account(fields: DocumentFields, name: str) -> Expression:
    """Read an account: `main`, or an expression whose value is `main` or a phone number."""
    return MAIN_ACCOUNT if fields.value(name) == "main" else fields.expression(name)


def _assignments(fields: DocumentFields, name: str) -> Assignments:
    pairs = [(var, fields.compiled(value, f"{name}.{var}")) for var, value in fields.entries(name).items()]
    return tuple((var, expression) for var, expression in pairs if expression is not None)


def _some_assignments(fields: DocumentFields, name: str) -> Assignments:
    read = _assignments(fields, name)
    if not read:
        fields.refuse(f"`{name}` is empty; name a variable and its expression", at=name)
    return read


def _key(option: DocumentFields, name: str) -> str:
    """Read the key of an option. Without one, the key is the number of the option, the last part of its path."""
    raw = option.value(name)
    key = option.path[-1] if raw is None else str(raw)
    if not KEY.fullmatch(key):
        option.refuse(f"the key `{key}` has to be 1 to 4 letters or digits", "option_key", name)
    elif raw is not None and (isinstance(raw, bool) or not isinstance(raw, str | int)):
        option.complain(f"`{name}` has to be a text; write it in quotes", name)
    return key


def _items(fields: DocumentFields, name: str) -> Expression:
    """Read a literal list or the name of a list variable. The fields after it know the widths of an item's fields."""
    raw, reading = fields.value(name), fields.reading
    widths: Mapping[Name, str] = {}
    if isinstance(raw, list | tuple):
        items, widths = constant(list(raw)), _literal_widths(fields, name, raw)
    else:
        items = fields.expression(name)
        declared = [reading.variables.get(each.name) for each in items.names if each.scope == "vars"]
        if len(declared) != 1 or declared[0] is None or declared[0].type != "list":
            fields.refuse(f"`{name}` has to be a list, or `vars.x` with a variable of type list", at=name)
        else:
            widths = {Name("item", each): variable.widest for each, variable in declared[0].fields.items()}
    fields.reading = replace(reading, widest={**reading.widest, **widths})
    return items


def _literal_widths(fields: DocumentFields, name: str, items: list[Any] | tuple[Any, ...]) -> dict[Name, str]:
    if not 0 < len(items) <= MAX_ITEMS:
        fields.refuse(f"`{name}` has to have 1 to {MAX_ITEMS} items", at=name)
    widths: dict[Name, str] = {}
    for item in items:
        for key, value in item.items() if isinstance(item, Mapping) else [("", item)]:
            if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > MAX_TEXT:
                message = f"an item of `{name}` has texts of at most {MAX_TEXT} characters, and numbers"
                fields.refuse(message, at=name)
                return {}
            widths[Name("item", str(key))] = max(widths.get(Name("item", str(key)), ""), str(value), key=len)
    return widths


def _headers(fields: DocumentFields, name: str) -> tuple[tuple[str, Template], ...]:
    headers = fields.entries(name)
    return tuple((header, fields.template(value, f"{name}.{header}")) for header, value in headers.items())


def _body(fields: DocumentFields, name: str) -> Any:
    return _filled_in(fields, fields.value(name), name, 1)


def _filled_in(fields: DocumentFields, value: Any, place: str, depth: int) -> Any:
    """Return a JSON value with its texts as templates."""
    if depth > _DEEPEST_BODY:
        fields.refuse(f"`{place}` is nested deeper than {_DEEPEST_BODY} levels", at=place)
        return None
    match value:
        case str():
            return fields.template(value, place)
        case Mapping():
            return {str(key): _filled_in(fields, each, f"{place}.{key}", depth + 1) for key, each in value.items()}
        case list() | tuple():
            return [_filled_in(fields, each, place, depth + 1) for each in value]
    return value


def _metadata(fields: DocumentFields, name: str) -> tuple[tuple[str, Template], ...]:
    """Read the metadata of a payment: names, each with a text that may show variables."""
    written = fields.entries(name)
    if len(written) > MAX_METADATA:
        fields.refuse(f"`{name}` has {len(written)} names; at most {MAX_METADATA} are allowed", at=name)
    for key in written:
        if not _METADATA_NAME.fullmatch(key):
            fields.refuse(f"`{name}`: `{shorten(key)}` is not a name of 1 to 40 letters, digits, - and _", at=name)
    return tuple((key, fields.template(value, f"{name}.{key}")) for key, value in written.items())


def _paths(fields: DocumentFields, name: str) -> tuple[tuple[str, str], ...]:
    paths = fields.entries(name)
    for var, path in paths.items():
        if not isinstance(path, str) or not 0 < len(path) <= _LONGEST_PATH:
            place = f"{name}.{var}"
            fields.refuse(f"`{place}` has to be a path into the answer, such as `data.name`", at=place)
    return tuple((var, str(path)) for var, path in paths.items())


def _receiver(fields: DocumentFields, name: str) -> Expression | None:
    """Read who receives a transfer; no other payment has this field."""
    is_given, is_transfer = fields.value(name) is not None, fields.value("kind") == "transfer"
    read = fields.expression(name) if is_given else None
    if is_transfer != (read is not None):
        fields.refuse(f"`{name}` belongs to a transfer, and a transfer needs it", at=name)
    return read


ANYTHING = Kind(mapping({}), DocumentFields.entries)
BOOLEAN = Kind({"type": "boolean"}, DocumentFields.boolean)
STRING = string()
TEXT = Kind(ref("text"), DocumentFields.text)
NODE = Kind(ref("name"), DocumentFields.identifier)
VARIABLE = Kind(ref("name"), DocumentFields.identifier)
BRANCH = Kind(ref("branch"), _branch)
EXPRESSION = Kind(ref("expression"), DocumentFields.expression)
WRITTEN_EXPRESSION: Schema = {"type": "string", "minLength": 1, "maxLength": expressions.MAX_CHARACTERS}
ACCOUNT = Kind(ref("expression"), _account)
ASSIGNMENTS = Kind(mapping(ref("expression"), MAX_ASSIGNMENTS), _assignments)
SOME_ASSIGNMENTS = Kind({**ASSIGNMENTS.schema, "minProperties": 1}, _some_assignments)
LANGUAGE = Kind(
    {"type": "string", "pattern": "^[a-z]{2,3}$"},
    lambda fields, name: fields.string(name, choices=fields.reading.languages),
)
OPTION_KEY = Kind(
    {"type": ["string", "integer"], "pattern": f"^{KEY.pattern}$", "minimum": 0, "maximum": 9999},
    _key,
    reads_absent=True,
)
TEMPLATE = Kind({"type": "string"}, lambda fields, name: fields.template(fields.value(name), name))
_ITEM: Schema = {"type": ["string", "number"], "maxLength": MAX_TEXT}
ITEMS = Kind({"anyOf": [WRITTEN_EXPRESSION, array({"anyOf": [_ITEM, mapping(_ITEM)]}, MAX_ITEMS, 1)]}, _items)
HEADERS = Kind(mapping(TEMPLATE.schema), _headers)
BODY = Kind({"type": ["object", "array", "string", "number", "boolean"], "items": {}}, _body)
METADATA = Kind(mapping(TEMPLATE.schema, MAX_METADATA, f"^{_METADATA_NAME.pattern}$"), _metadata)
PATHS = Kind(mapping(string(_LONGEST_PATH).schema, MAX_ASSIGNMENTS), _paths)
RECEIVER = Kind(EXPRESSION.schema, _receiver, reads_absent=True)
