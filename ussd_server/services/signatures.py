"""Signatures of rows that only the service may change: an HMAC of their columns, under a master key.

Who edits a row at the database prompt cannot sign it, and the book check names it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.clients import AuditEvent
from ussd_server.models.incoming import PaymentCode, PaymentCodePrefix
from ussd_server.models.keys import ApiKey
from ussd_server.models.ledger import BankAccount
from ussd_server.models.movements import MovementUse
from ussd_server.models.operations import HistoryDigest, RowSignature
from ussd_server.security.key_ring import Vault
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.operator_names import require_two_people
from ussd_server.services.runtime import Runtime
from ussd_server.values import iso_milliseconds, new_id_floor

UNSIGNED = "was changed, and not by the service"

_ROWS_AT_ONCE = 500
_DAY = timedelta(days=1)

_OF_KEY = (
    "client_id", "apikey", "scopes", "people", "previous_people", "readers", "previous_readers", "is_active",
    "expires_at", "allowed_addresses", "daily_limit_cents", "created_by", "bounds_set_by",
)  # fmt: skip
_OF_BANK_ACCOUNT = ("bank", "number", "name", "confirmed_by", "confirmed_at", "keep_cents", "minimum_cents")
_OF_CODE = (
    "client_id", "code", "account", "amount_cents", "min_amount_cents", "max_amount_cents", "expires_at", "single_use",
    "account_since",
)  # fmt: skip


_OF_USE = ("movement_id", "kind", "transaction_id", "other_id", "decided_by", "reason")


class SignedTable(NamedTuple):
    """A table whose rows are signed: the name of its key, the signed columns, and which of its rows are signed."""

    table: Any
    key: str
    columns: tuple[str, ...]
    which: Any = True

    def content(self, row: Any) -> bytes:
        return orjson.dumps([_written(getattr(row, column)) for column in self.columns])

    def name(self, row: Any) -> str:
        return f"{self.table._meta.table_name}/{getattr(row, self.key)}"


SIGNED_TABLES = {
    each.table._meta.table_name: each
    for each in (
        SignedTable(ApiKey, "id", _OF_KEY),
        SignedTable(BankAccount, "client_id", _OF_BANK_ACCOUNT, BankAccount.bank.is_null(False)),
        SignedTable(PaymentCodePrefix, "client_id", ("prefix",)),
        SignedTable(PaymentCode, "id", _OF_CODE),
        SignedTable(MovementUse, "id", _OF_USE, MovementUse.decided_by.is_null(False)),
    )
}


def sign_row(vault: Vault, table: Any, key: str) -> None:
    """Sign a row as it is now. Call in the unit of work that wrote all of it."""
    signed = SIGNED_TABLES[table._meta.table_name]
    for row in table.select().where(getattr(table, signed.key) == key, signed.which):
        _sign(vault, signed.name(row), signed.content(row))


@contextmanager
def signed_change(vault: Vault, table: Any, key: str) -> Iterator[None]:
    """A change of a part of a row, locked in a unit of work: signed afterwards, if the row had a true signature.

    So an edit at the database prompt stays unsigned, whatever the service changes later.
    """
    was_signed = is_row_signed(vault, table, key)
    yield
    if was_signed:
        sign_row(vault, table, key)


def is_row_signed(vault: Vault, table: Any, key: str) -> bool:
    """Whether a row is as the service wrote it last; also for one that needs no signature."""
    signed = SIGNED_TABLES[table._meta.table_name]
    row = table.get_or_none(getattr(table, signed.key) == key, signed.which)
    if row is None:
        return True
    return bool(_true_names(vault, {signed.name(row): signed.content(row)}))


def sign_audit_day(vault: Vault, start: datetime) -> None:
    _sign(vault, _audit_day(start), _events_of_day(start))


def is_audit_day_signed(vault: Vault | None, start: datetime) -> bool:
    name = _audit_day(start)
    return name in _true_names(vault, {name: _events_of_day(start)})


def unsigned_rows(table: str, low: str, high: str, vault: Vault | None) -> Iterator[tuple[str, str]]:
    """Yield the key of each row within (low, high] whose signature is missing or wrong.

    Without `vault`, which has the master keys, any signature counts.
    """
    signed = SIGNED_TABLES[table]
    key = getattr(signed.table, signed.key)
    rows = {signed.name(row): row for row in signed.table.select().where(key > low, key <= high, signed.which)}
    true = _true_names(vault, {name: signed.content(row) for name, row in rows.items()})
    for name in sorted(rows.keys() - true):
        yield str(getattr(rows[name], signed.key)), UNSIGNED


class SignatureService:
    """Renews signatures: under new master keys, and for operators who have compared the rows."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._vault = runtime.clock, runtime.vault

    def sign_again(self, by: str, second: str, reason: str, context: RequestContext) -> int:
        """Sign every row as it is now, for two operators who have compared those that the book check named.

        Return their number. INVALID_REQUEST unless two different people stand by it with a reason.
        """
        context.require_operator()
        names = require_two_people(by, second, reason)
        count = self._sign_all()
        write_audit_event(
            "rows.signed_again",
            context,
            self._clock.now(),
            client_id=None,
            reason=reason.strip(),
            decided_by=", ".join(names),
        )
        return count

    def renewed(self, row: RowSignature) -> dict[str, str]:
        """The digest of a signature under the newest master key. A wrong digest stays wrong."""
        content = _content_of(row.id)
        if content is None:
            return {"digest": row.digest}
        return {"digest": self._vault.renewed_digest(_bound(row.id, content), row.digest)}

    def _sign_all(self) -> int:
        count = sum(self._sign_table(signed) for signed in SIGNED_TABLES.values())
        for row in HistoryDigest.select(HistoryDigest.day):
            sign_audit_day(self._vault, datetime.fromisoformat(f"{row.day}T00:00:00+00:00"))
        return count

    def _sign_table(self, signed: SignedTable) -> int:
        key, count, last = getattr(signed.table, signed.key), 0, ""
        while True:
            rows = signed.table.select().where(signed.which).order_by(key).limit(_ROWS_AT_ONCE)
            with unit_of_work():
                # Locked, so that no other process changes and signs a row between the reading and the signature.
                page = list(for_update(rows.where(key > last) if last else rows))
                for row in page:
                    _sign(self._vault, signed.name(row), signed.content(row))
            if not page:
                return count
            count, last = count + len(page), getattr(page[-1], signed.key)


def _sign(vault: Vault, name: str, content: bytes) -> None:
    RowSignature.put({"id": name}, {"digest": vault.keyed_digest(_bound(name, content))})


def _true_names(vault: Vault | None, contents: dict[str, bytes]) -> set[str]:
    rows = RowSignature.select().where(RowSignature.id.in_(list(contents)))
    return {row.id for row in rows if vault is None or vault.has_digest(_bound(row.id, contents[row.id]), row.digest)}


def _content_of(name: str) -> bytes | None:
    """The content that a signature covers now; None when its row is gone."""
    table, _, key = name.partition("/")
    if table == "audit_events":
        return _events_of_day(datetime.fromisoformat(f"{key}T00:00:00+00:00"))
    if table not in SIGNED_TABLES:
        return None
    signed = SIGNED_TABLES[table]
    row = signed.table.get_or_none(getattr(signed.table, signed.key) == key)
    return None if row is None else signed.content(row)


def _audit_day(start: datetime) -> str:
    return f"audit_events/{start:%Y-%m-%d}"


def _events_of_day(start: datetime) -> bytes:
    """A digest of the audit events of a day in UTC."""
    digest, low, end = sha256(), new_id_floor(start), new_id_floor(start + _DAY)
    names = [field.name for field in AuditEvent._meta.sorted_fields]
    while True:
        rows = AuditEvent.select().where(AuditEvent.id > low, AuditEvent.id < end)
        page = list(rows.order_by(AuditEvent.id).limit(_ROWS_AT_ONCE))
        for row in page:
            digest.update(orjson.dumps([_written(getattr(row, name)) for name in names]) + b"\n")
        if not page:
            return digest.digest()
        low = page[-1].id


def _written(value: Any) -> Any:
    if isinstance(value, datetime):
        return iso_milliseconds(value)
    return " ".join(sorted(value)) if isinstance(value, frozenset) else value


def _bound(name: str, content: bytes) -> bytes:
    return b"row\0" + name.encode() + b"\0" + content
