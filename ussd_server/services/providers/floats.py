"""Floats: the money for disbursements that is left at each provider, asked for every minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from ussd_server.clock import Clock
from ussd_server.logs import logger
from ussd_server.messages.health import Measure
from ussd_server.messages.providers import Direction, Provider
from ussd_server.models.providers import ProviderFloat
from ussd_server.services.providers.providers import Providers

log = logger(__name__)

_ASKED_EVERY = timedelta(seconds=60)
_TIMEOUT_SECONDS = 10.0


class FloatService:
    """Asks providers for the float, and keeps the last answer of each."""

    def __init__(self, providers: Providers, clock: Clock, alert_cents: int = 0) -> None:
        """Less than `alert_cents` is low; 0: never."""
        self._providers = providers
        self._clock = clock
        self._alert_cents = alert_cents

    def ask(self) -> int:
        """Ask every provider whose float was not asked for within a minute, by any worker; return how many."""
        due = [provider for provider in self._providers if self._claim(provider.name)]
        for provider in due:
            self._ask(provider)
        return len(due)

    def measures(self) -> Iterator[Measure]:
        """Yield the floats, and whether they are low."""
        known = {row.provider: row.amount_cents for row in ProviderFloat.select() if row.amount_cents is not None}
        for name in [provider.name for provider in self._providers]:
            of_provider = {"company": name}
            is_low = name in known and known[name] < self._alert_cents
            yield Measure(
                "ussd_company_float_low", "1 while the float is less than USSD_FLOAT_ALERT_SHILLINGS.",
                float(is_low), of_provider,
            )  # fmt: skip
            if name in known:
                yield Measure(
                    "ussd_company_float_shillings", "The money for disbursements at a provider.",
                    known[name] / 100, of_provider,
                )  # fmt: skip

    def _claim(self, name: str) -> bool:
        now = self._clock.now()
        is_due = (ProviderFloat.provider == name) & (ProviderFloat.asked_at <= now - _ASKED_EVERY)
        claimed: int = ProviderFloat.update(asked_at=now).where(is_due).execute()
        if claimed:
            return True
        if ProviderFloat.select().where(ProviderFloat.provider == name).exists():
            return False
        ProviderFloat.insert(provider=name, asked_at=now).on_conflict_ignore().execute()
        return True

    def _ask(self, provider: Provider) -> None:
        amount_cents = provider.balance_cents(Direction.DISBURSEMENT, _TIMEOUT_SECONDS)
        if amount_cents is None:
            return
        before = ProviderFloat.get_by_id(provider.name).amount_cents
        state = {"amount_cents": amount_cents, "read_at": self._clock.now()}
        ProviderFloat.update(**state).where(ProviderFloat.provider == provider.name).execute()
        if amount_cents < self._alert_cents and (before is None or before >= self._alert_cents):
            log.warning("the float at a provider is low", company=provider.name)
