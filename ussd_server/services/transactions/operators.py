"""For operators: the transactions of any client, and the check that two people decide."""

from __future__ import annotations

from ussd_server.database.unit_of_work import for_update
from ussd_server.models.clients import Client
from ussd_server.models.transactions import Transaction
from ussd_server.services.operator_names import require_two_names
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id

_LONGEST_TEXT = 200
_LONGEST_REFERENCE = 64


def require_two_people(by: str, second: str, reason: str) -> tuple[str, str]:
    """Two different people who decide, as `require_two_names` returns them. INVALID_REQUEST without a reason, too."""
    names = require_two_names(by, second)
    require_reason(reason)
    return names


def require_reason(reason: str) -> None:
    """Raise INVALID_REQUEST unless a reason has 1 to 200 characters."""
    if not 0 < len(reason.strip()) <= _LONGEST_TEXT:
        raise ServiceError(Code.INVALID_REQUEST, "A reason is needed, of at most 200 characters")


def require_reference(reference: str) -> None:
    """Raise INVALID_REQUEST unless a reference has 1 to 64 characters that can be printed."""
    if not 0 < len(reference.strip()) <= len(reference) <= _LONGEST_REFERENCE or not reference.isprintable():
        raise ServiceError(Code.INVALID_REQUEST, "A reference is needed, of at most 64 characters that can be printed")


def require_description(description: str) -> None:
    """Raise INVALID_REQUEST unless a description has at most 200 characters that can be printed."""
    if len(description) > _LONGEST_TEXT or not description.isprintable():
        raise ServiceError(Code.INVALID_REQUEST, "A description has at most 200 characters that can be printed")


def find_any(id_or_reference: str, client_id: str | None = None, *, locked: bool = False) -> Transaction:
    """The transaction of any client, or of `client_id`, by its id or the client's reference; `locked` only by its id.

    Raises TRANSACTION_NOT_FOUND, and INVALID_REQUEST for a reference that several transactions have.
    """
    found: list[Transaction] = []
    if is_id(id_or_reference):
        rows = Transaction.select().where(Transaction.id == id_or_reference)
        found = [row for row in (for_update(rows) if locked else rows) if client_id in (None, row.client_id)]
    if not found and not locked:
        client_ids = [client_id] if client_id else [client.id for client in Client.select(Client.id)]
        for each in client_ids:
            found += list(
                Transaction.select().where(Transaction.client_id == each, Transaction.reference == id_or_reference)
            )
    if not found:
        raise ServiceError(Code.TRANSACTION_NOT_FOUND, "Transaction not found")
    if len(found) > 1:
        listed = ", ".join(f"{row.id} of client {row.client_id}" for row in found[:5])
        raise ServiceError(Code.INVALID_REQUEST, f"Several transactions have this reference: {listed}")
    return found[0]
