"""The variables of a session: those that a menu declares, with their limits; and the states of providers."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ussd_server.menus.document.expressions import MAX_MAGNITUDE, TODAY, WIDEST_DATE, Name
from ussd_server.menus.text import drop_controls
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.values import PHONE_NUMBER

TYPES = ("amount", "integer", "phone", "date", "text", "list")
MAX_TEXT = 160
MAX_DIGITS = 15
MAX_ITEMS = 50

_WHOLE = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_DEFAULT_MAX_LEN = {"amount": 7, "integer": 9, "phone": 13, "date": 10, "text": 30, "list": 0}


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable: its type and its maximum length.

    `max_len` counts digits of a number and characters of a text. A list shows at most `max_items` items on a page and
    has at most 50, each either one value (`fields` has the key `""`) or an object with declared fields.
    """

    type: str
    max_len: int
    truncate: bool = False
    given: bool = False
    max_items: int = 0
    fields: Mapping[str, Variable] = field(default_factory=dict)

    @property
    def is_number(self) -> bool:
        return self.type in ("amount", "integer")

    @property
    def widest(self) -> str:
        """The longest value, as a text without a filter shows it."""
        return {
            "amount": "9" * self.max_len,
            "integer": "-" + "9" * self.max_len,
            "phone": "+256777777777",
            "date": WIDEST_DATE,
            "text": "W" * self.max_len,
            "list": "",
        }[self.type]

    def convert(self, value: Any) -> Any:
        """Return `value` in the type of this variable, or None when it does not fit."""
        match self.type:
            case "amount" | "integer":
                return self._number(value)
            case "phone":
                return value if isinstance(value, str) and PHONE_NUMBER.fullmatch(value) else None
            case "date":
                return _date(value)
            case "list":
                return self._items(value)
            case _:
                return self._text(value)

    def _number(self, value: Any) -> int | None:
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            value = int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_MAGNITUDE:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 10**self.max_len:
            return None
        return None if self.type == "amount" and value < 0 else value

    def _text(self, value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            return None
        if isinstance(value, int) and abs(value) > MAX_MAGNITUDE:
            return None
        text = drop_controls(str(value))
        if len(text) > self.max_len:
            return text[: self.max_len] if self.truncate else None
        return text

    def _items(self, value: Any) -> list[Any] | None:
        """Return the first 50 items, or None when one of them does not fit its declaration."""
        if not isinstance(value, list | tuple):
            return None
        items = [self._item(item) for item in value[:MAX_ITEMS]]
        return None if None in items else items

    def _item(self, item: Any) -> Any:
        if "" in self.fields:
            return self.fields[""].convert(item)
        if not isinstance(item, Mapping):
            return None
        item_values = {name: variable.convert(item.get(name)) for name, variable in self.fields.items()}
        return None if None in item_values.values() else item_values


def default_max_len(type_name: str) -> int:
    """Return the default `max_len` of a type, in digits or characters."""
    return _DEFAULT_MAX_LEN[type_name]


def _date(value: Any) -> str | None:
    try:
        return datetime.date.fromisoformat(value).isoformat() if isinstance(value, str) and len(value) == 10 else None
    except ValueError:
        return None


WIDEST_FACTS: Mapping[Name, str] = {
    Name("session", "phone_number"): "+256777777777",
    Name("session", "service_code"): "*" + "9" * 18 + "#",
    Name("session", "network"): "9" * 10,
    Name("session", "session_id"): "W" * 64,
    Name("subscriber", "has_pin"): "False",
    TODAY: WIDEST_DATE,
    **{Name("provider", f"{provider}.available"): "False" for provider in PROVIDER_NAMES},
}


class ProviderStates(Mapping[str, bool]):
    """`mtn.available` and the like. A state is asked for when an expression reads it, not at every step."""

    def __init__(
        self, takes_payments: Callable[[str, str | None], bool] = lambda *_: True, client_id: str | None = None
    ) -> None:
        """`takes_payments` answers from memory. By default, in tools without a service, every provider does."""
        self._takes_payments, self._client_id = takes_payments, client_id

    def of(self, client_id: str) -> ProviderStates:
        """Return the states of the connections that take a client's payments."""
        return ProviderStates(self._takes_payments, client_id)

    def __getitem__(self, name: str) -> bool:
        provider, _, fact = name.partition(".")
        if fact != "available" or provider not in PROVIDER_NAMES:
            raise KeyError(name)
        return self._takes_payments(provider, self._client_id)

    def __iter__(self) -> Iterator[str]:
        return (f"{provider}.available" for provider in PROVIDER_NAMES)

    def __len__(self) -> int:
        return len(PROVIDER_NAMES)


EVERY_PROVIDER = ProviderStates()
