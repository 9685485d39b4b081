"""A view is written as its declaration says, and its schema says the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import StrEnum
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple

import orjson
import pytest
from openapi_schema_validator import OAS31Validator

from ussd_server.wire import (
    Cents,
    Internal,
    Items,
    Key,
    Page,
    SignedCents,
    Sparse,
    keys_of,
    object_schema,
    one_of,
    schema_of,
    writer,
)

AT = datetime(2026, 11, 20, 8, 15, 30, 123_456, UTC)


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: Annotated[int, "Across."]
    y: Annotated[float, "Down."]


@dataclass(frozen=True, slots=True)
class Known(Sparse):
    note: Annotated[str | None, "A note."] = None
    count: Annotated[int | None, "How many."] = None


@dataclass(frozen=True, slots=True)
class Thing:
    name: Annotated[str, "The name."]
    secret: Internal[str]
    amount_cents: Annotated[Cents, "What it costs."]
    change_cents: Annotated[SignedCents | None, "How the price changed; null where it did not."]
    made_at: Annotated[datetime, "When it was made."]
    sold_at: Annotated[datetime | None, "When it was sold; null before."]
    colour: Annotated[Colour | None, "The colour; null for none."]
    size: Annotated[Annotated[str, one_of("big", "small")] | None, "The size; null where it is not known."]
    is_now: Annotated[bool, Key("is"), "Whether it is."]
    points: Annotated[tuple[Point, ...], "Its corners."]
    by_colour: Annotated[Mapping[Colour, Point], "The corner of each colour."]
    known: Annotated[Known, "What is known."]
    middle: Annotated[Point | None, "Its middle; null for none."]
    data: Annotated[dict[str, Any] | None, "Any object; null for none."]


@dataclass(frozen=True, slots=True)
class SoldThing(Thing):
    buyer: Annotated[str, "Who bought it."]


@dataclass
class Plain:
    name: Annotated[str, "The name."]


@dataclass
class MorePlain(Plain):
    secret: Internal[str]


@dataclass(frozen=True, slots=True)
class Unmarked:
    name: Annotated[str, "The name."]
    secret: str


def thing(**more: Any) -> Thing:
    values = {
        "name": "n", "secret": "s", "amount_cents": 500_050, "change_cents": None, "made_at": AT, "sold_at": None,
        "colour": None, "size": None, "is_now": True, "points": (), "by_colour": {}, "known": Known(), "middle": None,
        "data": None,
    }  # fmt: skip
    return Thing(**values | more)


FULL: dict[str, Any] = {
    "change_cents": -100,
    "sold_at": AT,
    "colour": Colour.RED,
    "size": "big",
    "points": (Point(1, 2), Point(3, 4)),
    "by_colour": {Colour.BLUE: Point(5, 6)},
    "known": Known(note="seen"),
    "middle": Point(0, 0),
    "data": {"a": [1]},
}


def whole_schema(view: Any) -> dict[str, Any]:
    """The schema of a view with those of the views in it."""
    return object_schema(view, whole_schema)


def test_a_view_is_written_field_by_field_in_its_order() -> None:
    written = writer(Thing)(thing(**FULL))
    assert written == {
        "name": "n", "amount": 5000.5, "change": -1, "made_at": "2026-11-20T08:15:30.123Z",
        "sold_at": "2026-11-20T08:15:30.123Z", "colour": "red", "size": "big", "is": True,
        "points": [{"x": 1, "y": 2.0}, {"x": 3, "y": 4.0}], "by_colour": {"blue": {"x": 5, "y": 6.0}},
        "known": {"note": "seen"}, "middle": {"x": 0, "y": 0.0}, "data": {"a": [1]},
    }  # fmt: skip
    assert list(written) == list(keys_of(Thing))
    assert [type(point["y"]) for point in written["points"]] == [float, float]


def test_an_internal_field_is_written_nowhere() -> None:
    assert "secret" not in writer(Thing)(thing())
    assert "secret" not in object_schema(Thing, whole_schema)["properties"]


def test_what_has_no_value_is_null_except_in_a_sparse_view() -> None:
    written = writer(Thing)(thing())
    assert [name for name, value in written.items() if value is None] == [
        "change", "sold_at", "colour", "size", "middle", "data",
    ]  # fmt: skip
    assert written["known"] == {}
    assert writer(Known)(Known(count=0)) == {"count": 0}


def test_the_declared_type_decides_what_is_shown_of_an_extended_view() -> None:
    sold = SoldThing(*(getattr(thing(), name) for name in Thing.__slots__), buyer="b")
    assert writer(SoldThing)(sold) == writer(Thing)(sold) | {"buyer": "b"}
    assert "buyer" not in writer(Page[Thing])(Page((sold,), None))["items"][0]


def test_a_view_that_orjson_can_write_itself_is_left_to_it() -> None:
    plain, more = Plain("a"), MorePlain("a", "b")
    assert writer(Plain)(plain) is plain
    assert orjson.dumps(writer(Plain)(plain)) == b'{"name":"a"}'
    assert writer(Plain)(more) == {"name": "a"}
    assert orjson.dumps(writer(MorePlain)(more)) == b'{"name":"a"}'


@pytest.mark.parametrize("kind", [date, list[Point], tuple[Decimal, ...], dict[str, SimpleNamespace], Unmarked])
def test_a_type_that_no_reply_can_show_is_refused_when_its_writer_is_made(kind: Any) -> None:
    with pytest.raises(TypeError):
        writer(kind)


def test_pages_and_lists_are_written_by_the_type_of_their_items() -> None:
    point = {"x": 1, "y": 2.0}
    assert writer(Page[Point])(Page((Point(1, 2),), "c")) == {"items": [point], "next_cursor": "c"}
    assert writer(Items[Point])(Items((Point(1, 2),))) == {"items": [point]}
    assert writer(tuple[Point, ...])((Point(1, 2),)) == [point]
    assert writer(None)(None) is None


@pytest.mark.parametrize("more", [{}, FULL])
def test_a_written_view_is_valid_under_its_own_schema(more: dict[str, Any]) -> None:
    OAS31Validator(whole_schema(Thing)).validate(writer(Thing)(thing(**more)))
    OAS31Validator(schema_of(Page[Thing], whole_schema)).validate(writer(Page[Thing])(Page((thing(**more),), None)))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", None),
        ("amount", -1),
        ("amount", "5000"),
        ("made_at", None),
        ("colour", "green"),
        ("size", "huge"),
        ("is", "yes"),
        ("points", [{"x": 1.5, "y": 2}]),
        ("known", {"note": None}),
        ("middle", {"x": 1}),
        ("more", 1),
    ],
)
def test_a_schema_refuses_what_its_view_never_writes(key: str, value: Any) -> None:
    wrong = writer(Thing)(thing(**FULL)) | {key: value}
    assert list(OAS31Validator(whole_schema(Thing)).iter_errors(wrong))


def test_a_schema_names_what_every_reply_has_and_what_each_field_means() -> None:
    schema = object_schema(Thing, lambda view: {"$ref": view.__name__})
    assert schema["required"] == sorted(keys_of(Thing))
    assert "required" not in object_schema(Known, whole_schema)
    assert schema["properties"]["amount"] == {
        "type": "number",
        "minimum": 0,
        "examples": [5000],
        "description": "What it costs.",
    }
    assert schema["properties"]["middle"] == {
        "anyOf": [{"$ref": "Point"}, {"type": "null"}],
        "description": "Its middle; null for none.",
    }
    assert schema["properties"]["colour"]["enum"] == ["red", "blue", None]
