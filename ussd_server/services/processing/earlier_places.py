"""Earlier connections, asked for a payment before it is sent: one may have it that the database lost."""

from __future__ import annotations

from datetime import datetime, timedelta

from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.providers import ProviderPlace
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Direction, Provider
from ussd_server.services.runtime import Runtime

# How long after a change of the place of new payments, or after a restore, earlier connections are asked.
_ASKED_FOR = timedelta(days=1)
_NOTED_EVERY = timedelta(minutes=1)


class EarlierPlaces:
    """Notes where new payments go, and says who else is asked before one is sent."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._providers = runtime.clock, runtime.providers
        self._is_restoring = runtime.settings.hold_money
        self._noted_at: datetime | None = None
        self._changed_at: dict[tuple[str, str], datetime] = {}

    def note(self) -> None:
        """Note the places of new payments: once in a process, and each minute of a restore, when money is held."""
        now = self._clock.now()
        if self._noted_at is not None and not (self._is_restoring and now - self._noted_at >= _NOTED_EVERY):
            return
        with unit_of_work():
            noted = {(row.provider, row.direction): row for row in ProviderPlace.select()}
            for connection in self._providers:
                for direction in Direction:
                    key, place = (connection.name, direction.value), connection.place(direction)
                    if key not in noted or noted[key].place != place or self._is_restoring:
                        names = {"provider": connection.name, "direction": direction.value}
                        ProviderPlace.put(names, {"place": place, "changed_at": now})
                        self._changed_at[key] = now
                    else:
                        self._changed_at[key] = noted[key].changed_at
        self._noted_at = now

    def asked_before(self, row: Transaction, connection: Provider) -> list[Provider]:
        """The connections that are asked before a payment is sent by another one; none for one that was sent."""
        if row.asked_at is not None:
            return []
        owners = self._providers.owners()
        of_all = self._changed_at.get((str(row.provider), row.type))
        of_client = owners.changed_at.get((row.client_id, str(row.provider)))
        now = self._clock.now()
        if not any(changed_at and now - changed_at <= _ASKED_FOR for changed_at in (of_all, of_client)):
            return []
        direction = Direction(row.type)
        place = connection.place(direction)
        return [
            each
            for each in self._providers.connections
            if each.name == row.provider
            and each.place(direction) != place
            and each.bounds[direction].enabled
            and owners.of(each.connection) in (None, row.client_id)
        ]
