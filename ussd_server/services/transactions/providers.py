"""The money companies that are switched on, and which of them a payment goes to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ussd_server.messages.providers import Provider
from ussd_server.status import Code, ServiceError

KNOWN_PROVIDERS = ("mtn", "airtel", "sandbox")


class Providers:
    """Finds the company for a payment."""

    def __init__(
        self,
        switched_on: Iterable[Provider],
        predict: Callable[[str], str | None],
        is_away: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`predict` names the company that a phone number most probably belongs to.

        `is_away` tells whether a company is known to be away to another process, which has called it lately.
        """
        self._switched_on = {provider.name: provider for provider in switched_on}
        self._predict = predict
        self._is_away = is_away

    def __iter__(self) -> Iterator[Provider]:
        return iter(self._switched_on.values())

    def get(self, name: str) -> Provider | None:
        """The company of that name, None while it is switched off."""
        return self._switched_on.get(name)

    def choose(self, name: str | None, phone_number: str, amount_cents: int) -> Provider:
        """The company for a new payment: the one named, else the one predicted, else the sandbox where there is one.

        INVALID_REQUEST when the name is unknown or none can be predicted, TRANSACTION_FAILED (502) when the company is
        switched off or known to be away, INVALID_AMOUNT for cents at a company that moves whole shillings only.
        """
        if name is not None and name not in KNOWN_PROVIDERS:
            raise ServiceError(Code.INVALID_REQUEST, "provider: Must be mtn, airtel or sandbox.")
        if name is None:
            predicted = self._predict(phone_number)
            name = predicted if predicted in self._switched_on or "sandbox" not in self._switched_on else "sandbox"
        if name is None:
            raise ServiceError(Code.INVALID_REQUEST, "provider: Cannot be told from the phone number; name it.")
        provider = self._switched_on.get(name)
        if provider is None or not provider.available or self._is_away(name):
            raise ServiceError(
                Code.TRANSACTION_FAILED,
                f"The mobile money company {name} is not available. Nothing was recorded; please try again later",
                retry_after_seconds=30,
            )
        if provider.moves_whole_shillings_only and amount_cents % 100:
            raise ServiceError(Code.INVALID_AMOUNT, f"amount: {name} moves whole shillings only.")
        return provider
