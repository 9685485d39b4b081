"""Digests of payouts: the validated rows, and who made and approved them, under a key outside the database."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import datetime
from hashlib import sha256
from json import JSONEncoder
from typing import Any, NamedTuple

import orjson

from ussd_server.database.unit_of_work import run_query
from ussd_server.logs import Logger
from ussd_server.models.payouts import Approval, ApprovalRules, Payout
from ussd_server.security.key_ring import Vault
from ussd_server.status import Code, ServiceError
from ussd_server.values import iso_milliseconds

log = Logger(__name__)

# The columns in the digest of a draft. Fees are not among them, because the approval computes them again.
OF_DRAFT = (
    "id", "client_id", "reference", "description", "item_count", "ready_count", "invalid_count", "total_amount_cents",
    "request_digest", "created_by", "people", "created_at", "items_digest", "send_at", "round", "round_by",
    "round_people", "round_count", "round_amount_cents",
)  # fmt: skip
_encode = JSONEncoder(sort_keys=True, default=str).encode
OF_APPROVAL = (*OF_DRAFT, "approved_by", "approved_at", "key_id")
OF_GIVEN = (
    "id", "payout_id", "round", "made_by", "people", "key_id", "operators", "note", "total_fee_cents", "created_at",
)  # fmt: skip
OF_RULES = ("id", "rules", "proposed", "proposed_by")


class ValidatedRow(NamedTuple):
    """The validated values of one row; `problems` is its column's text."""

    line: int
    phone_number: str | None
    amount_cents: int | None
    provider: str | None
    reference: str | None
    description: str | None
    name: str | None
    is_ready: bool
    problems: str | None
    round: int
    attempt: int


_ROWS = f"SELECT {', '.join(ValidatedRow._fields)} FROM payout_items WHERE payout_id = :payout_id ORDER BY line"  # noqa: S608


def validated_rows(payout_id: str) -> list[ValidatedRow]:
    """The rows of a payout in the order of their lines."""
    return [ValidatedRow(*row) for row in run_query(_ROWS, payout_id=payout_id)]


def digest_of_items(rows: Iterable[ValidatedRow]) -> str:
    """The `items_digest` of a payout with these rows."""
    digest = sha256()
    for row in rows:
        # SQLite has 0 and 1 for booleans.
        digest.update(orjson.dumps(tuple(row._replace(is_ready=bool(row.is_ready)))) + b"\n")
    return digest.hexdigest()


def digest_of_request(description: str | None, rows: Iterable[Any], send_at: str | None) -> str:
    """The `request_digest` of what a payout was made of, computed row by row."""
    digest = sha256(_encode([description, send_at]).encode())
    for row in rows:
        digest.update(b"\n" + _encode(row).encode())
    return digest.hexdigest()


class PayoutDigests:
    """Makes and verifies the digests that name a payout's rows and people."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def of(self, columns: tuple[str, ...], row: Payout | Approval | ApprovalRules) -> str:
        """The digest of some columns of a row; of a payout with its `items_digest`."""
        return self._vault.keyed_digest(_content(row, columns))

    def is_as_made(self, columns: tuple[str, ...], row: Any) -> bool:
        """Whether an approval or approval rules, a model or its columns as text, are as their digest was made."""
        return self._has_digest(row, columns, row.digest)

    def renewed_of(self, columns: tuple[str, ...], row: Approval | ApprovalRules) -> dict[str, str]:
        """The columns of their digest under the newest master key. A digest that is wrong stays wrong."""
        return {"digest": self._vault.renewed_digest(_content(row, columns), row.digest)}

    def is_as_validated(self, payout: Payout, items_digest: str) -> bool:
        """Whether a draft and its rows, which have this digest, are unchanged since they were validated."""
        return payout.items_digest == items_digest and self._has_digest(payout, OF_DRAFT, payout.draft_digest)

    def require_validated(self, payout: Payout) -> list[ValidatedRow]:
        """The rows of a draft. Raises INVALID_REQUEST when it or they were changed since they were validated."""
        rows = validated_rows(payout.id)
        if not self.is_as_validated(payout, digest_of_items(rows)):
            log.error("a payout is not what was judged", payout_id=payout.id)
            raise ServiceError(
                Code.INVALID_REQUEST,
                "The payout is not what was judged when it was created; "
                "cancel it and send its rows again under another reference",
            )
        return rows

    def is_as_approved(self, payout: Payout, items_digest: str) -> bool:
        """Whether an approved payout and its rows, which have this digest, are unchanged since the approval."""
        return (
            self.is_as_validated(payout, items_digest) and payout.approval_digest is not None and self.is_true(payout)
        )

    def is_true(self, payout: Any) -> bool:
        """Whether every digest that a payout has was made of it: of its model, or of its columns as text."""
        return all(
            digest is None or self._has_digest(payout, names, digest)
            for names, digest in ((OF_DRAFT, payout.draft_digest), (OF_APPROVAL, payout.approval_digest))
        )

    def renewed(self, payout: Payout) -> dict[str, str | None]:
        """The columns of a payout's digests under the newest master key. A digest that is wrong stays wrong."""
        if not self.is_true(payout):
            return {"draft_digest": payout.draft_digest}
        return {
            "draft_digest": payout.draft_digest and self.of(OF_DRAFT, payout),
            "approval_digest": payout.approval_digest and self.of(OF_APPROVAL, payout),
        }

    def _has_digest(self, payout: Any, names: tuple[str, ...], digest: str | None) -> bool:
        return digest is not None and self._vault.has_digest(_content(payout, names), digest)


def _content(payout: Any, names: tuple[str, ...]) -> bytes:
    return b"payout\0" + orjson.dumps([_written(getattr(payout, name)) for name in names])


def _written(value: Any) -> Any:
    """A value of a model as its column's text."""
    if isinstance(value, datetime):
        return iso_milliseconds(value)
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return " ".join(sorted(value)) if isinstance(value, frozenset) else value
