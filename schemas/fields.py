"""Base classes of bodies and queries, and their field types.

Each field accepts exactly what the contract allows; `refusal` is its own error code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property
from typing import Any, ClassVar

from marshmallow import RAISE, Schema, ValidationError, fields, missing

from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.values import PHONE_NUMBER, cents_of, moment_of

_AMOUNT_IN_BOUNDS = r"^(?!0+(\.0+)?$)0{0,6}[0-9]{1,6}(\.[0-9]{1,2})?$"
_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})")
_DAY = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}")
_WHOLE = re.compile(r"[0-9]{1,9}")
# Beyond this, JSON readers disagree about the value of a whole number (RFC 8259, section 6).
_LARGEST_WHOLE = 2**53
# Comparing words costs time, and a caller chooses them.
_MISTYPED, _MOST_MISTYPED = re.compile(r"[\w.-]{1,40}", re.ASCII), 5
_LIKENESS = 0.6


class Body(Schema):
    """A JSON object that a caller sends. Loading raises ValidationError for a field that is not declared."""

    is_query: ClassVar[bool] = False
    takes_yaml: ClassVar[bool] = False
    """Whether the body may also be YAML; the service then reads it from its text."""
    takes_files: ClassVar[tuple[str, ...]] = ()
    """Media types of files that are taken whole instead of JSON."""
    error_messages = {"unknown": "Unknown field."}

    class Meta:
        unknown = RAISE
        ordered = True

    def load(self, data: Any, **options: Any) -> Any:
        """Load valid data field by field, which is fast. For other data marshmallow collects the errors and raises."""
        try:
            return self._load_valid(data)
        except ValidationError:
            try:
                return super().load(data, **options)
            except ValidationError as refusal:
                self._add_hints(refusal, data)
                raise

    def _load_valid(self, document: Mapping[str, Any]) -> dict[str, Any]:
        loaded = {}
        seen = 0
        for key, name, field in self._readers:
            if key in document:
                seen += 1
                loaded[name] = field.deserialize(document[key], key, document)
            elif field.required:
                raise ValidationError("missing")
            elif field.load_default is not missing:
                loaded[name] = field.load_default
        if seen < len(document):
            raise ValidationError("unknown")
        return loaded

    def _add_hints(self, refusal: ValidationError, data: Any) -> None:
        """Say at a missing field, and at an unknown one, which of the other kind was probably meant."""
        if not isinstance(data, Mapping) or not isinstance(refusal.messages, dict):
            return
        free = [key for key, _, _ in self._readers if key not in data]
        known = {key for key, _, _ in self._readers}
        unknown = [key for key in data if key not in known and _MISTYPED.fullmatch(key)][:_MOST_MISTYPED]
        for key in unknown:
            for meant in get_close_matches(key, free, n=1, cutoff=_LIKENESS):
                refusal.messages[key] = [f"{self.error_messages['unknown']} Did you mean {meant}?"]
                if meant in refusal.messages:
                    refusal.messages[meant] = [f"{refusal.messages[meant][0]} The field {key} is unknown."]

    @cached_property
    def _readers(self) -> list[tuple[str, str, fields.Field[Any]]]:
        return [(field.data_key or name, name, field) for name, field in self.load_fields.items()]


class Query(Body):
    """Query parameters: each at most once, and only those that are declared."""

    is_query: ClassVar[bool] = True
    error_messages = {"unknown": "Unknown query parameter."}


class PhoneNumber(fields.Field[str]):
    """`+256` and nine ASCII digits. Whitespace is not trimmed."""

    refusal: ClassVar[str] = "INVALID_PHONE_NUMBER"
    default_error_messages = {
        "invalid": "Must be +256 followed by nine digits.",
        "null": "Must be +256 followed by nine digits.",
    }

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        if not isinstance(value, str) or not PHONE_NUMBER.fullmatch(value):
            raise self.make_error("invalid")
        return value

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field."""
        return {"type": "string", "pattern": f"^{PHONE_NUMBER.pattern}$", "examples": ["+256772123456"]}


class Amount(fields.Field[int]):
    """An amount: shillings in JSON, whole cents in Python. Greater than 0, less than 1000000, at most two decimals.

    Accepts a number or a string of digits. Numbers with decimals arrive as `Decimal`: the JSON parser makes them.
    """

    refusal: ClassVar[str] = "INVALID_AMOUNT"
    lowest: ClassVar[Decimal] = Decimal("0.01")
    upper_bound: ClassVar[Decimal] = Decimal(1_000_000)
    default_error_messages = {
        "invalid": "Must be greater than 0 and less than 1000000, with at most two decimals.",
        "null": "Must be greater than 0 and less than 1000000, with at most two decimals.",
    }

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        cents = cents_of(value, self.lowest, self.upper_bound)
        if cents is None:
            raise self.make_error("invalid")
        return cents

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field."""
        number = {
            "type": "number",
            "exclusiveMinimum": 0,
            "exclusiveMaximum": int(self.upper_bound),
            "multipleOf": 0.01,
        }
        return {"anyOf": [number, {"type": "string", "pattern": _AMOUNT_IN_BOUNDS}], "examples": [5000]}


class FeeSum(Amount):
    """A sum of fees, which may be 0 or more than one amount: shillings in JSON, whole cents in Python."""

    refusal: ClassVar[str] = "INVALID_REQUEST"
    lowest: ClassVar[Decimal] = Decimal(0)
    upper_bound: ClassVar[Decimal] = Decimal(10_000_000_000)
    default_error_messages = {
        "invalid": "Must be 0 or more, with at most two decimals.",
        "null": "Must be 0 or more, with at most two decimals.",
    }

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field."""
        number = {"type": "number", "minimum": 0, "exclusiveMaximum": int(self.upper_bound), "multipleOf": 0.01}
        text = {"type": "string", "pattern": r"^[0-9]{1,10}(\.[0-9]{1,2})?$"}
        return {"anyOf": [number, text], "examples": [1500]}


class AnySum(Amount):
    """A sum of money without an upper bound, greater than 0: shillings in JSON, whole cents in Python."""

    upper_bound: ClassVar[Decimal] = Decimal(10_000_000_000_000)
    default_error_messages = {
        "invalid": "Must be greater than 0, with at most two decimals.",
        "null": "Must be greater than 0, with at most two decimals.",
    }

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field."""
        number = {"type": "number", "exclusiveMinimum": 0, "multipleOf": 0.01}
        text = {"type": "string", "pattern": r"^[0-9]{1,12}(\.[0-9]{1,2})?$"}
        return {"anyOf": [number, text], "examples": [2000000]}


class Text(fields.Field[str]):
    """A string of `shortest` to `longest` characters without control characters."""

    def __init__(self, *, longest: int, shortest: int = 1, pattern: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.shortest, self.longest = shortest, longest
        self.pattern = re.compile(pattern) if pattern else None

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError("Must be a string.")
        if not self.shortest <= len(value) <= self.longest:
            raise ValidationError(f"Must be {self.shortest} to {self.longest} characters long.")
        if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
            raise ValidationError("Must not contain control characters.")
        if self.pattern and not self.pattern.fullmatch(value):
            raise ValidationError("Has characters that are not allowed here.")
        return value

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field."""
        pattern = f"^({self.pattern.pattern})$" if self.pattern else r"^[^\x00-\x1f\x7f]*$"
        return {"type": "string", "minLength": self.shortest, "maxLength": self.longest, "pattern": pattern}


class ProviderName(Text):
    """The name of a provider. The service refuses those that it lacks; the document lists all of the product."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(longest=32, **kwargs)

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field."""
        if self.allow_none:
            return {"type": ["string", "null"], "enum": [*PROVIDER_NAMES, None]}
        return {"type": "string", "enum": list(PROVIDER_NAMES)}


class Whole(fields.Field[int]):
    """A whole number from `lowest` to `highest`: a JSON integer, or ASCII digits in a query."""

    def __init__(self, *, lowest: int, highest: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.lowest, self.highest = lowest, highest

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        if isinstance(value, str) and self.context_is_query and _WHOLE.fullmatch(value):
            value = int(value)
        if type(value) is not int or not self.lowest <= value <= self.highest:
            raise ValidationError(f"Must be a whole number from {self.lowest} to {self.highest}.")
        return value

    @property
    def context_is_query(self) -> bool:
        """Return whether this field belongs to a query, where every value is text."""
        return bool(getattr(self.root, "is_query", False))

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field."""
        return {"type": "integer", "minimum": self.lowest, "maximum": self.highest}


class Flag(fields.Field[bool]):
    """JSON true or false; no other value is accepted."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError("Must be true or false.")
        return value

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field."""
        return {"type": "boolean"}


class Timestamp(fields.Field[datetime]):
    """A time: read as ISO 8601 with an offset, written in UTC with milliseconds and `Z`."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> datetime:
        if isinstance(value, str) and _MOMENT.fullmatch(value) and (moment := moment_of(value)):
            return moment
        raise ValidationError("Must be an ISO 8601 time with its offset, such as 2026-11-20T08:15:30.123Z.")

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field."""
        return {"type": "string", "format": "date-time", "examples": ["2026-11-20T08:15:30.123Z"]}


class Day(fields.Field[date]):
    """A day, as `2026-11-20`."""

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> date:
        if isinstance(value, str) and _DAY.fullmatch(value):
            try:
                return date.fromisoformat(value)
            except ValueError:
                pass
        raise ValidationError("Must be a day, such as 2026-11-20.")

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field."""
        return {"type": "string", "format": "date", "examples": ["2026-11-20"]}


class JsonObject(fields.Field[dict[str, Any]]):
    """Any JSON object, at most `longest` characters when written out."""

    def __init__(self, *, longest: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.longest = longest

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValidationError("Must be an object.")
        plain = _without_decimals(value)
        if len(str(plain)) > self.longest:
            raise ValidationError(f"Must be at most {self.longest} characters long when written out.")
        return plain  # type: ignore[no-any-return]

    @property
    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of the field. JSON Schema cannot express the length."""
        return {"type": "object"}


def _without_decimals(value: Any) -> Any:
    if isinstance(value, Decimal):
        number = float(value)
        if number in (float("inf"), float("-inf")):
            raise ValidationError("Has a number that is too large.")
        return number
    if isinstance(value, int) and not -_LARGEST_WHOLE <= value <= _LARGEST_WHOLE:
        raise ValidationError("Has a number that is too large.")
    if isinstance(value, dict):
        return {name: _without_decimals(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_without_decimals(item) for item in value]
    return value
