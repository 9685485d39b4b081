"""Base classes of bodies and queries, their field types, and the fields that many of them have.

Each field accepts exactly what the contract allows; `refusal` is its own error code.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from types import NoneType
from typing import Any, ClassVar, TypeVar, get_args, get_type_hints

from marshmallow import RAISE, Schema, ValidationError, fields, missing, validate

from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.services.transactions import messages as transactions
from ussd_server.values import PHONE_NUMBER, cents_of, mark_in, moment_of
from ussd_server.wire import WEB_ADDRESS, Length, marks_of

_MOMENT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?(Z|[+-][0-9]{2}:[0-9]{2})")
_DAY = re.compile(r"20[0-9]{2}-[0-9]{2}-[0-9]{2}")
_WHOLE = re.compile(r"[0-9]{1,9}")
# Beyond this, JSON readers disagree about the value of a whole number (RFC 8259, section 6).
_LARGEST_WHOLE = 2**53
# Comparing words costs time, and a caller chooses them.
_MISTYPED, _MOST_MISTYPED = re.compile(r"[\w.-]{1,40}", re.ASCII), 5
_LIKENESS = 0.6
_MOST_UNKNOWN = 20

_Value = TypeVar("_Value")


class Body(Schema):
    """A JSON object that a caller sends. Loading raises ValidationError for a field that is not declared."""

    is_query: ClassVar[bool] = False
    takes_yaml: ClassVar[bool] = False
    """Whether the body may also be YAML; the service then reads it from its text."""
    takes_files: ClassVar[tuple[str, ...]] = ()
    """Media types of files that are taken whole instead of JSON."""
    most_values: ClassVar[int] = 700
    """The most values in the lists and objects of the body: what it may cost to read it."""
    error_messages = {"unknown": "Unknown field."}

    class Meta:
        unknown = RAISE
        ordered = True

    def load(self, data: Any, **options: Any) -> Any:
        """Load valid data field by field, which is fast. For other data marshmallow collects the errors and raises."""
        try:
            return self._load_valid(data)
        except ValidationError:
            few = self._with_few_unknown(data)
            try:
                return super().load(few, **options)
            except ValidationError as refusal:
                self._add_hints(refusal, few)
                raise

    def _with_few_unknown(self, data: Any) -> Any:
        """Return data without most of its unknown fields: only one is named, and each costs as much as a known one."""
        if not isinstance(data, Mapping):
            return data
        names = [key for key, _, _ in self._readers]
        unknown = islice((key for key in data if key not in names), _MOST_UNKNOWN)
        return {key: data[key] for key in (*names, *unknown) if key in data}

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
        names = {key for key, _, _ in self._readers}
        unknown = [key for key in data if key not in names and _MISTYPED.fullmatch(key)][:_MOST_MISTYPED]
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


class Field(fields.Field[_Value]):
    """A field with its own JSON Schema. `meaning` is what the API document says of it; no log keeps a secret one."""

    json_schema: dict[str, Any]

    def __init__(self, meaning: str = "", *, is_secret: bool = False, **options: Any) -> None:
        super().__init__(metadata={"description": meaning} if meaning else {}, **options)
        self.is_secret = is_secret


def _money(pattern: str, example: int, **bounds: int) -> dict[str, Any]:
    """The JSON Schema of an amount in shillings: a number within bounds, or a text of this pattern."""
    number = {"type": "number", **bounds, "multipleOf": 0.01}
    return {"anyOf": [number, {"type": "string", "pattern": pattern}], "examples": [example]}


class PhoneNumber(Field[str]):
    """`+256` and nine ASCII digits. Whitespace is not trimmed."""

    refusal: ClassVar[str] = "INVALID_PHONE_NUMBER"
    default_error_messages = {
        **dict.fromkeys(("invalid", "null"), "Must be +256 followed by nine digits."),
        "marked": "Must be +256 followed by nine digits; it has the character {mark}.",
    }
    json_schema = {"type": "string", "pattern": f"^{PHONE_NUMBER.pattern}$", "examples": ["+256772123456"]}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        if not isinstance(value, str) or not PHONE_NUMBER.fullmatch(value):
            mark = mark_in(value[:64]) if isinstance(value, str) else None
            raise self.make_error("marked", mark=mark) if mark else self.make_error("invalid")
        return value


class Amount(Field[int]):
    """An amount: shillings in JSON, whole cents in Python. Greater than 0, less than 1000000, at most two decimals.

    Accepts a number or a string of digits. Numbers with decimals arrive as `Decimal`: the JSON parser makes them.
    """

    refusal: ClassVar[str] = "INVALID_AMOUNT"
    lowest: ClassVar[Decimal] = Decimal("0.01")
    upper_bound: ClassVar[Decimal] = Decimal(1_000_000)
    default_error_messages = dict.fromkeys(
        ("invalid", "null"), "Must be greater than 0 and less than 1000000, with at most two decimals."
    )
    json_schema = _money(
        r"^(?!0+(\.0+)?$)0{0,6}[0-9]{1,6}(\.[0-9]{1,2})?$", 5000, exclusiveMinimum=0, exclusiveMaximum=1_000_000
    )

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        cents = cents_of(value, self.lowest, self.upper_bound)
        if cents is None:
            raise self.make_error("invalid")
        return cents


class FeeSum(Amount):
    """A sum of fees, which may be 0 or more than one amount: shillings in JSON, whole cents in Python."""

    refusal: ClassVar[str] = "INVALID_REQUEST"
    lowest: ClassVar[Decimal] = Decimal(0)
    upper_bound: ClassVar[Decimal] = Decimal(10_000_000_000)
    default_error_messages = dict.fromkeys(("invalid", "null"), "Must be 0 or more, with at most two decimals.")
    json_schema = _money(r"^[0-9]{1,10}(\.[0-9]{1,2})?$", 1500, minimum=0, exclusiveMaximum=10_000_000_000)


class AnySum(Amount):
    """A sum of money without an upper bound, greater than 0: shillings in JSON, whole cents in Python."""

    upper_bound: ClassVar[Decimal] = Decimal(10_000_000_000_000)
    default_error_messages = dict.fromkeys(("invalid", "null"), "Must be greater than 0, with at most two decimals.")
    json_schema = _money(r"^[0-9]{1,12}(\.[0-9]{1,2})?$", 2000000, exclusiveMinimum=0)


class Text(Field[str]):
    """A string of `shortest` to `longest` characters without control characters."""

    control_characters: ClassVar[str] = r"\x00-\x1f\x7f"
    refused_characters: ClassVar[str] = "control characters"
    mismatch: ClassVar[str] = "Has characters that are not allowed here."

    def __init__(
        self,
        meaning: str = "",
        *,
        longest: int,
        shortest: int = 1,
        pattern: str | None = None,
        example: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(meaning, **options)
        self.shortest, self.longest = shortest, longest
        self.pattern = re.compile(pattern) if pattern else None
        self._refused = re.compile(f"[{self.control_characters}]")
        written = f"^({pattern})$" if pattern else f"^[^{self.control_characters}]*$"
        self.json_schema = {"type": "string", "minLength": shortest, "maxLength": longest, "pattern": written}
        if example is not None:
            self.json_schema["examples"] = [example]

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        if not isinstance(value, str):
            raise ValidationError("Must be a string.")
        if not self.shortest <= len(value) <= self.longest:
            raise ValidationError(f"Must be {self.shortest} to {self.longest} characters long.")
        if self._refused.search(value):
            raise ValidationError(f"Must not contain {self.refused_characters}.")
        if self.pattern and not self.pattern.fullmatch(value):
            raise ValidationError(self.mismatch)
        return value


class WebAddress(Text):
    """The address of a client's server. The request log keeps its scheme and host alone."""

    mismatch: ClassVar[str] = "Must begin with https:// and hold printable ASCII characters only."


class ProviderName(Text):
    """The name of a provider. The service refuses those that it lacks; the document lists all of the product."""

    def __init__(self, meaning: str, **options: Any) -> None:
        super().__init__(meaning, longest=32, **options)
        self.json_schema = {"type": "string", "enum": list(PROVIDER_NAMES)}


class ChoiceOf(fields.String):
    """One of some words."""

    def __init__(self, meaning: str, words: tuple[str, ...], **options: Any) -> None:
        super().__init__(validate=validate.OneOf(words), metadata={"description": meaning}, **options)


class ListOf(fields.List[Any]):
    """An array of 1 to `most` values of one kind."""

    def __init__(self, meaning: str, kind: Field[Any], *, most: int, **options: Any) -> None:
        super().__init__(kind, validate=validate.Length(1, most), metadata={"description": meaning}, **options)


class Whole(Field[int]):
    """A whole number from `lowest` to `highest`: a JSON integer, or ASCII digits in a query."""

    def __init__(self, meaning: str = "", *, lowest: int, highest: int, **options: Any) -> None:
        super().__init__(meaning, **options)
        self.lowest, self.highest = lowest, highest
        self.json_schema = {"type": "integer", "minimum": lowest, "maximum": highest}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> int:
        # Every value of a query is text.
        if isinstance(value, str) and getattr(self.root, "is_query", False) and _WHOLE.fullmatch(value):
            value = int(value)
        if type(value) is not int or not self.lowest <= value <= self.highest:
            raise ValidationError(f"Must be a whole number from {self.lowest} to {self.highest}.")
        return value


class Flag(Field[bool]):
    """JSON true or false; no other value is accepted."""

    json_schema = {"type": "boolean"}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> bool:
        if not isinstance(value, bool):
            raise ValidationError("Must be true or false.")
        return value


class Timestamp(Field[datetime]):
    """A time: read as ISO 8601 with an offset, written in UTC with milliseconds and `Z`."""

    json_schema = {"type": "string", "format": "date-time", "examples": ["2026-11-20T08:15:30.123Z"]}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> datetime:
        if isinstance(value, str) and _MOMENT.fullmatch(value) and (moment := moment_of(value)):
            return moment
        raise ValidationError("Must be an ISO 8601 time with its offset, such as 2026-11-20T08:15:30.123Z.")


class LaterTime(Timestamp):
    """A time that has to lie ahead. Any example would lie in the past one day."""

    json_schema = {"type": "string", "format": "date-time"}


class Day(Field[date]):
    """A day, as `2026-11-20`."""

    json_schema = {"type": "string", "format": "date", "examples": ["2026-11-20"]}

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> date:
        if isinstance(value, str) and _DAY.fullmatch(value):
            try:
                return date.fromisoformat(value)
            except ValueError:
                pass
        raise ValidationError("Must be a day, such as 2026-11-20.")


class JsonObject(Field[dict[str, Any]]):
    """Any JSON object, at most `longest` characters when written out."""

    # JSON Schema cannot express the length.
    json_schema = {"type": "object"}

    def __init__(self, meaning: str = "", *, longest: int, **options: Any) -> None:
        super().__init__(meaning, **options)
        self.longest = longest

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValidationError("Must be an object.")
        plain = _without_decimals(value)
        if len(str(plain)) > self.longest:
            raise ValidationError(f"Must be at most {self.longest} characters long when written out.")
        return plain  # type: ignore[no-any-return]


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


def fields_of(message: type) -> dict[str, Field[Any]]:
    """Return the fields of a body that a message declares: those with a meaning and a `Length`, in their order.

    For `include` in the `Meta` of a body. A field that may be None may be null.
    """
    return {
        name: _field_of(hint, meaning, length)
        for name, hint in get_type_hints(message, include_extras=True).items()
        for meaning in marks_of(hint, str)
        for length in marks_of(hint, Length)
    }


def _field_of(hint: Any, meaning: str, length: Length) -> Field[Any]:
    kinds = get_args(get_args(hint)[0]) or get_args(hint)
    options: dict[str, Any] = {"allow_none": True} if NoneType in kinds else {"required": True}
    if kinds[0] is str:
        kind = WebAddress if length is WEB_ADDRESS else Text
        return kind(meaning, longest=length.longest, shortest=length.shortest, pattern=length.pattern, **options)
    return JsonObject(meaning, longest=length.longest, **options)


LONGEST_REFERENCE = transactions.REFERENCE.longest
PAGE_CURSOR = Text("The `next_cursor` of the page before.", longest=512)
PAGE_LIMIT = Whole("The most entries of a page. Default: 50.", lowest=1, highest=100)
PERIOD_BEGIN = Timestamp("The first moment of the period, inclusive.", data_key="from")
PERIOD_END = Timestamp("The end of the period, exclusive.", data_key="to")
_SUBSCRIBER = "The subscriber: `+256` and nine digits."
SUBSCRIBER = PhoneNumber(_SUBSCRIBER)
REQUIRED_SUBSCRIBER = PhoneNumber(_SUBSCRIBER, required=True)
ACCOUNT_PATTERN = r"main|\+256[0-9]{9}"


class Reference(Text):
    """A name that a client gives: a string that is not blank."""

    def __init__(self, meaning: str, **options: Any) -> None:
        super().__init__(meaning, longest=LONGEST_REFERENCE, **options)
        self.json_schema["pattern"] = rf"^[^{self.control_characters}]*\S[^{self.control_characters}]*$"

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> str:
        text = super()._deserialize(value, attr, data, **kwargs)
        if not text.strip():
            raise ValidationError("Must not be blank.")
        return text


REFERENCE = "The client's own reference, unique for ever. Repeating a request with it is safe."
"""The meaning of the reference of a transaction or a payout."""


class RotateSecretBody(Body):
    """How long the present secret stays valid after the new one is made."""

    grace_period_seconds = Whole(
        "How long the old secret stays valid beside the new one, in seconds. Default: one day.",
        lowest=0,
        highest=604_800,
        load_default=86_400,
    )
