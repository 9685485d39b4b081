"""Which providers take payments now, for expressions such as `provider.mtn.available`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

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
