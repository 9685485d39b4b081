"""Clients with a connection to a provider of their own, which serves nobody else."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from peewee import Field

from ussd_server.clock import Clock
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import DATABASE_ERRORS, advisory_lock, unit_of_work
from ussd_server.models.providers import OwnConnection
from ussd_server.providers.messages import Provider
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.operator_names import require_two_people
from ussd_server.services.providers.messages import ChooseConnection, ChosenConnection
from ussd_server.status import Code, ServiceError
from ussd_server.threads import CachedValue

_REFRESH_SECONDS = 1.0
_LOCK = 7_256_256_177


@dataclass(frozen=True, slots=True)
class Owners:
    """The connections that clients have of their own, by client and provider, and when a client's changed last."""

    connections: Mapping[tuple[str, str], str] = field(default_factory=dict)
    changed_at: Mapping[tuple[str, str], datetime] = field(default_factory=dict)

    def of(self, connection: str) -> str | None:
        """The client that has a connection of its own, None for a connection of all."""
        return next((client for (client, _), name in self.connections.items() if name == connection), None)

    def is_served(self, client_id: Field, connection: Provider) -> Any:
        """The condition that new payments of a client go by a connection: its own, or one of all."""
        if (owner := self.of(connection.connection)) is not None:
            return client_id == owner
        return client_id.not_in([client for client, provider in self.connections if provider == connection.name])


class OwnConnections:
    """Which client has a connection of its own. Every process reads the table at most once a second."""

    def __init__(self, connections: Collection[Provider], clock: Clock) -> None:
        self._connections, self._clock = connections, clock
        self._owners = CachedValue[Owners](self._read, _REFRESH_SECONDS, Owners())

    def owners(self) -> Owners:
        """The owners, as read at most a second ago."""
        return self._owners.refresh()

    def choose(self, request: ChooseConnection, context: RequestContext) -> ChosenConnection:
        """Give a client a connection of its own for its new payments, or the one of all again.

        Raises INVALID_REQUEST for a connection that the settings do not have, that is another client's, or without
        which no other takes new payments of its provider, and unless two different people are named with a reason.
        """
        context.require_operator()
        decided_by = ", ".join(require_two_people(request.by, request.second, request.reason))
        connection = next((each for each in self._connections if each.connection == request.connection), None)
        if connection is None:
            names = ", ".join(each.connection for each in self._connections)
            raise ServiceError(Code.INVALID_REQUEST, f"connection: Must be one of: {names}.")
        now, provider = self._clock.now(), connection.name
        with unit_of_work():
            advisory_lock(_LOCK)
            owners = self._read()
            if not request.is_shared:
                self._require_free(connection, request.client_id, owners)
            name = None if request.is_shared else connection.connection
            key = {"client_id": request.client_id, "provider": provider}
            OwnConnection.put(key, {"connection": name, "changed_at": now})
            write_audit_event(
                "client.connection_chosen",
                context,
                now,
                client_id=request.client_id,
                object_id=request.client_id,
                reason=f"{provider}: {name or 'the connection of all'}: {request.reason.strip()}"[:200],
                decided_by=decided_by,
            )
        self._owners.set(self._read())
        return ChosenConnection(request.client_id, provider, name)

    def _require_free(self, connection: Provider, client_id: str, owners: Owners) -> None:
        if owners.of(connection.connection) not in (None, client_id):
            raise ServiceError(Code.INVALID_REQUEST, f"connection: {connection.connection} is another client's.")
        others = [
            each
            for each in self._connections
            if each.name == connection.name
            and each is not connection
            and not each.draining
            and owners.of(each.connection) is None
        ]
        if not others:
            sentence = f"connection: No other connection takes new payments at {connection.name}."
            raise ServiceError(Code.INVALID_REQUEST, sentence)

    def _read(self) -> Owners:
        try:
            rows = list(OwnConnection.select())
        except DATABASE_ERRORS:
            return self._owners.value
        return Owners(
            {(row.client_id, row.provider): row.connection for row in rows if row.connection is not None},
            {(row.client_id, row.provider): row.changed_at for row in rows},
        )
