"""The state of a session, how it is stored, which providers take payments, and the result of one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ussd_server.menus.document.variables import SessionFacts
from ussd_server.menus.engine.actions import MenuAction
from ussd_server.menus.text.screen import Screen
from ussd_server.providers.names import PROVIDER_NAMES

_takes_payments: Callable[[str], bool] = lambda _: True  # noqa: E731 - replaced as a whole


def use_provider_states(takes_payments: Callable[[str], bool]) -> None:
    """Ask `takes_payments` for the state of a provider from now on. It answers from memory.

    Until then, and in tools without a service, every provider takes payments.
    """
    global _takes_payments
    _takes_payments = takes_payments


class ProviderStates(Mapping[str, bool]):
    """`mtn.available` and the like. A state is asked for when an expression reads it, not at every step."""

    def __getitem__(self, name: str) -> bool:
        provider, _, fact = name.partition(".")
        if fact != "available" or provider not in PROVIDER_NAMES:
            raise KeyError(name)
        return _takes_payments(provider)

    def __iter__(self) -> Iterator[str]:
        return (f"{provider}.available" for provider in PROVIDER_NAMES)

    def __len__(self) -> int:
        return len(PROVIDER_NAMES)


PROVIDER_STATES = ProviderStates()


MASK = "****"


@dataclass(frozen=True, slots=True)
class State:
    """The state of a session between two steps.

    `confirmation` names the visit to a confirm node that the session is at or has just confirmed; otherwise None.
    `secrets` (secret entries) and `ahead` (remaining entries of a fast-forward) last for one step and are never stored.
    """

    facts: SessionFacts
    node: str
    language: str
    page: int = 0
    back: tuple[tuple[str, int], ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 0
    confirm_visits: int = 0
    confirmation: str | None = None
    interlude: str | None = None  # "resume" or "payment": a built-in screen before the node
    handover_entries: tuple[str, ...] | None = None
    hops: int = 0
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    ahead: tuple[str, ...] | None = field(default=None, repr=False)

    def scope(self) -> dict[str, Any]:
        """Return the values that expressions and texts may read."""
        return {
            "vars": {**self.variables, **self.secrets},
            "session": self.facts.as_scope(),
            "provider": PROVIDER_STATES,
        }

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain JSON values, without secrets."""
        stored = {name: getattr(self, name) for name in _STORED}
        return {
            **stored,
            "facts": self.facts.as_scope(),
            "back": [list(place) for place in self.back],
            "variables": dict(self.variables),
            "handover_entries": None if self.handover_entries is None else list(self.handover_entries),
        }

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> State:
        """Read a state that `to_dict` returned."""
        entries = stored["handover_entries"]
        return cls(
            **{name: stored[name] for name in _STORED},
            facts=SessionFacts(**stored["facts"]),
            back=tuple((node, page) for node, page in stored["back"]),
            variables=dict(stored["variables"]),
            handover_entries=None if entries is None else tuple(entries),
        )


_STORED = ("node", "language", "page", "attempts", "confirm_visits", "confirmation", "interlude", "hops")


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of one step: the new state, and a screen or an action. After the action, call `resume`.

    `language_chosen` is to be stored for the phone number. `entry_shown` is the entry for the transcript, masked when
    `is_secret`.
    """

    state: State
    screen: Screen | None = None
    action: MenuAction | None = None
    language_chosen: str | None = None
    entry_shown: str = ""
    is_secret: bool = False
