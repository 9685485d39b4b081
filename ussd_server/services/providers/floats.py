"""Floats: the money for disbursements that is left in each account at a provider, queried every minute."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from ussd_server.context import automatic_context
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.logs import Logger
from ussd_server.models.providers import ProviderAccount
from ussd_server.providers.messages import Direction, Provider
from ussd_server.providers.registry import title_of_account
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.operations.messages import Measure
from ussd_server.services.runtime import Runtime
from ussd_server.values import grouped, shillings, written_amount

log = Logger(__name__)

_ASKED_EVERY = timedelta(seconds=60)
_TIMEOUT_SECONDS = 10.0


class FloatService:
    """Queries the floats, keeps the last answer of each, and records when one becomes low."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._providers, self._outbox = runtime.clock, runtime.providers, runtime.mail_outbox
        self._alert_cents = runtime.settings.float_alert_shillings * 100

    def query(self) -> int:
        """Query every float that was not queried within a minute, by any worker; return how many."""
        due = [connection for connection in self._providers.accounts.values() if self._claim(connection)]
        for connection in due:
            self._ask(connection)
        return len(due)

    def measures(self) -> Iterator[Measure]:
        """Yield the floats, and whether they are low."""
        amounts = {row.account: row.amount_cents for row in ProviderAccount.select() if row.amount_cents is not None}
        for name in self._providers.accounts:
            of_provider = {"provider": name}
            is_low = name in amounts and amounts[name] < self._alert_cents
            yield Measure(
                "ussd_provider_float_low",
                "1 while the float is less than USSD_FLOAT_ALERT_SHILLINGS.",
                float(is_low),
                of_provider,
            )
            if name in amounts:
                yield Measure(
                    "ussd_provider_float_shillings",
                    "The money for disbursements in an account at a provider.",
                    shillings(amounts[name]),
                    of_provider,
                )

    def _claim(self, connection: Provider) -> bool:
        now, name = self._clock.now(), connection.account
        is_due = (ProviderAccount.account == name) & (ProviderAccount.asked_at <= now - _ASKED_EVERY)
        claimed: int = ProviderAccount.update(asked_at=now).where(is_due).execute()
        if claimed:
            return True
        if ProviderAccount.select().where(ProviderAccount.account == name).exists():
            return False
        ProviderAccount.insert(account=name, provider=connection.name, asked_at=now).on_conflict_ignore().execute()
        return True

    def _ask(self, connection: Provider) -> None:
        amount_cents = connection.balance_cents(Direction.DISBURSEMENT, _TIMEOUT_SECONDS)
        if amount_cents is None:
            return
        is_low, now = amount_cents < self._alert_cents, self._clock.now()
        with unit_of_work():
            row = lock_row(ProviderAccount, connection.account)
            was_low = row.low_since is not None
            row.amount_cents, row.read_at = amount_cents, now
            if is_low != was_low:
                row.low_since = now if is_low else None
                self._write_event(row, now)
                if is_low:
                    self._notify(row, now)
            row.save()
        if is_low and not was_low:
            log.warning("the float at a provider is low", provider=connection.account)

    def _notify(self, row: ProviderAccount, now: datetime) -> None:
        """Write mails to operators, one an hour for a provider whose float goes up and down."""
        about = {
            "provider": title_of_account(row.account, row.provider),
            "amount": grouped(row.amount_cents),
            "limit": grouped(self._alert_cents),
            "page": "/console/operator/providers",
        }
        kind = MailKind.FLOAT_LOW
        self._outbox.notify_operators(kind, about, now, occasion=f"{kind}/{row.account}/{now:%Y-%m-%dT%H}")

    def _write_event(self, row: ProviderAccount, now: datetime) -> None:
        """Add to the history of the provider that its float became low, or is no longer low."""
        write_audit_event(
            "provider.float_low" if row.low_since else "provider.float_restored",
            automatic_context(),
            now,
            client_id=None,
            object_id=row.account,
            is_automatic=True,
            reason=f"{written_amount(row.amount_cents)}; the alert is set to {written_amount(self._alert_cents)}",
        )
