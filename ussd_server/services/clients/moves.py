"""Moves of a client to another installation: everything of a disabled client in one file, checked on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any

import orjson
from peewee import IntegrityError

from ussd_server.context import RequestContext
from ussd_server.database.tables import lock_row
from ussd_server.database.unit_of_work import dialect, run_query, unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.incoming import PaymentCodePrefix
from ussd_server.models.keys import ApiKey
from ussd_server.runtime import Service
from ussd_server.security.key_ring import DecryptionError
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.moved_rows import (
    TABLES,
    RowsDigest,
    batches_of,
    columns_of_tables,
    insert_batch,
    totals_of,
)
from ussd_server.services.operator_names import require_two_people
from ussd_server.status import Code, ServiceError
from ussd_server.wire import Cents

_FORMAT = "client of ussd-server, 1"
_STATEMENT_TIMEOUT_MS = 3_600_000
_UNDER_WAY = {
    "a payment is not settled yet": "transactions WHERE client_id = :client_id AND due_at IS NOT NULL",
    "a payment waits for operators": "transactions WHERE client_id = :client_id AND review_opened_at IS NOT NULL "
    "AND review_closed_at IS NULL",
    "a payout is not complete": "payouts WHERE client_id = :client_id AND approved_at IS NOT NULL "
    "AND completed_at IS NULL",
    "a session is open": "ussd_sessions WHERE client_id = :client_id AND status = 'active'",
    "a message was not sent yet": "messages WHERE client_id = :client_id AND status = 'queued'",
    "an event was not sent yet": "deliveries WHERE client_id = :client_id AND status = 'waiting'",
    "an event has no deliveries yet": "pending_events JOIN events ON id = event_id WHERE client_id = :client_id",
}


@dataclass(frozen=True, slots=True)
class MovedClient:
    """A client that was moved, and what was compared on both sides."""

    client_id: Annotated[str, "The client."]
    name: Annotated[str, "Its name."]
    rows: Annotated[Mapping[str, int], "How many rows of each table were moved."]
    digest: Annotated[str, "The digest of all rows; the same on both sides."]
    balance_cents: Annotated[Cents, "The balance of its main account, in shillings."]
    paid_cents: Annotated[Cents, "The sum of its succeeded transactions, in shillings."]


class ClientMoves(Service):
    """Writes a client into a file, and takes one from a file. Both installations need the same master keys."""

    def export(self, client_id: str, context: RequestContext) -> Iterator[bytes]:
        """Mark a disabled client as moved, and give the lines of its file, made while they are written.

        A client that was moved is never enabled here again; exported again, it gives the same rows. Raises
        INVALID_REQUEST while the client is active, or something of it is under way; NOT_FOUND for an unknown one.
        """
        context.require_operator()
        now = self._clock.now()
        with unit_of_work():
            row = lock_row(Client, client_id)
            if row.is_active:
                raise ServiceError(Code.INVALID_REQUEST, "Disable the client first")
            for trouble, rows in _UNDER_WAY.items():
                if run_query(f"SELECT 1 FROM {rows} LIMIT 1", client_id=client_id).fetchone():  # noqa: S608
                    raise ServiceError(Code.INVALID_REQUEST, f"The client cannot be moved yet: {trouble}")
            if row.moved_at is None:
                row.moved_at = now
                row.save(only=[Client.moved_at])
                write_audit_event("client.exported", context, now, client_id=client_id, object_id=client_id)
        return self._lines(client_id)

    def _lines(self, client_id: str) -> Iterator[bytes]:
        yield _line(_header(client_id, self._keyring.reference_check_value))
        totals = {}
        with dialect().snapshot():
            for table in TABLES:
                digest = RowsDigest()
                for rows in batches_of(table, client_id):
                    digest.add(rows)
                    yield _line({"table": table._meta.table_name, "rows": rows})
                totals[table._meta.table_name] = digest.written()
        yield _line({"totals": totals})

    def take(self, lines: Iterable[bytes], context: RequestContext) -> MovedClient:
        """Insert the client of a file, disabled, and compare what was inserted with what was exported.

        The rules of the database are off while its rows are inserted, so other clients of this installation wait. Run
        the book check before you enable it. Raises INVALID_REQUEST for a file that is not complete, for one of another
        version or with other master keys, and where a name of the client is taken here; nothing is inserted then.
        """
        context.require_operator()
        lines = iter(lines)
        header = _read(next(lines, b""))
        client_id = str(header.get("client_id"))
        if header != _header(client_id, self._keyring.reference_check_value):
            raise ServiceError(
                Code.INVALID_REQUEST, "The file is of another version, or its installation has other master keys"
            )
        try:
            with _bare_unit_of_work():
                # What was read is what is there, so that no row of another client came with it.
                if _insert(lines) != totals_of(client_id):
                    raise ServiceError(Code.INVALID_REQUEST, "The file is not complete, or was changed")
                moved = moved_client(client_id)
                self._accept(client_id, context)
        except IntegrityError:
            raise ServiceError(
                Code.INVALID_REQUEST,
                "The client, or an e-mail address, a key, a code or a channel of it, is here already",
            ) from None
        return moved

    def take_back(self, client_id: str, by: str, second: str, reason: str, context: RequestContext) -> None:
        """Let a client that was exported be enabled here again, because it was not imported elsewhere.

        Raises INVALID_REQUEST unless two people stand by it with a reason: two copies that are enabled pay twice.
        """
        context.require_operator()
        names = require_two_people(by, second, reason)
        with unit_of_work():
            row, now = lock_row(Client, client_id), self._clock.now()
            if row.moved_at is None:
                raise ServiceError(Code.INVALID_REQUEST, "The client was not exported")
            row.moved_at = None
            row.save(only=[Client.moved_at])
            write_audit_event(
                "client.taken_back",
                context,
                now,
                client_id=client_id,
                object_id=client_id,
                reason=reason.strip(),
                decided_by=", ".join(names),
            )

    def _accept(self, client_id: str, context: RequestContext) -> None:
        row, now = lock_row(Client, client_id), self._clock.now()
        if row.is_active or Client.select().where(Client.name == row.name, Client.id != client_id).exists():
            raise ServiceError(Code.INVALID_REQUEST, "The client is active, or there is another one of its name")
        for prefix in PaymentCodePrefix.select().where(PaymentCodePrefix.client_id == client_id):
            others = PaymentCodePrefix.select().where(PaymentCodePrefix.client_id != client_id)
            if any(
                other.prefix.startswith(prefix.prefix) or prefix.prefix.startswith(other.prefix) for other in others
            ):
                raise ServiceError(Code.INVALID_REQUEST, "Payment codes of another client begin like those of this one")
        try:
            for key in ApiKey.select().where(ApiKey.client_id == client_id):
                self._vault.decrypt(key.secret_sealed, client_id, key.id)
        except DecryptionError:
            raise ServiceError(Code.INVALID_REQUEST, "The secret of a key needs a master key that is missing") from None
        row.imported_at = now
        row.save(only=[Client.imported_at])
        write_audit_event("client.imported", context, now, client_id=client_id, object_id=client_id)


def moved_client(client_id: str) -> MovedClient:
    """What was moved of a client."""
    totals = totals_of(client_id)
    (balance,) = run_query(
        "SELECT coalesce(sum(balance_cents), 0) FROM ledger_accounts WHERE client_id = :client_id AND name = 'main'",
        client_id=client_id,
    ).fetchone()
    (paid,) = run_query(
        "SELECT coalesce(sum(amount_cents), 0) FROM transactions WHERE client_id = :client_id AND status = 'succeeded'",
        client_id=client_id,
    ).fetchone()
    return MovedClient(
        client_id,
        Client.get_by_id(client_id).name,
        {table: count for table, (count, _) in totals.items()},
        sha256(orjson.dumps(totals)).hexdigest(),
        int(balance),
        int(paid),
    )


@contextmanager
def _bare_unit_of_work() -> Iterator[None]:
    """A long unit of work without the triggers of the tables."""
    with dialect().without_timeouts(), unit_of_work():
        dialect().allow_statements(_STATEMENT_TIMEOUT_MS)
        with dialect().without_triggers([table._meta.table_name for table in TABLES]):
            yield


def _header(client_id: str, keys_of: str) -> dict[str, Any]:
    return {"format": _FORMAT, "client_id": client_id, "reference_key": keys_of, "columns": columns_of_tables()}


def _insert(lines: Iterator[bytes]) -> dict[str, list[Any]] | None:
    """Insert the rows of a file; return their totals, None unless the file ends with the same."""
    digests = {table._meta.table_name: RowsDigest() for table in TABLES}
    for line in lines:
        part = _read(line)
        if "totals" in part:
            totals = {name: digest.written() for name, digest in digests.items()}
            return totals if part["totals"] == totals else None
        try:
            insert_batch(part["table"], part["rows"])
            digests[part["table"]].add(part["rows"])
        except (KeyError, TypeError, ValueError):
            raise _not_ours() from None
    return None


def _line(document: dict[str, Any]) -> bytes:
    return orjson.dumps(document) + b"\n"


def _read(line: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise _not_ours()
    return document


def _not_ours() -> ServiceError:
    return ServiceError(Code.INVALID_REQUEST, "The file is not one that `clients export` wrote")
