"""Proofs of closed days: what a day was computed from, so that it can be computed again and compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from datetime import date, datetime

import orjson

from ussd_server.models.statements import ClosedDay, DayProof
from ussd_server.security.key_ring import Vault
from ussd_server.services.reconciliation.days.bridge import DayBridge, bridge_of
from ussd_server.services.reconciliation.days.coverage import Coverage
from ussd_server.values import iso_milliseconds
from ussd_server.wire import columns_of

OTHER_BOOKS = "does not have the payments, lines and differences, or the sums and the bridge, that it was closed with"
OTHER_PROOF = "differs from what its operators signed, or has a proof that was changed"


class DayProofs:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    def write(self, proof_id: str, closed: ClosedDay, covered: Coverage | None, bridge: DayBridge) -> None:
        """Write the proof of a day. Call in the unit of work that closes it."""
        row = DayProof(
            id=proof_id,
            account=closed.account,
            day=closed.day,
            statements=list(covered.statement_ids) if covered else [],
            first_at=covered.first_at if covered else None,
            last_at=covered.last_at if covered else None,
            content=bridge.content,
        )
        row.digest = self._vault.keyed_digest(_signed(row, closed))
        row.save(force_insert=True)

    def renewed(self, row: DayProof) -> dict[str, str]:
        """The digest of a proof under the newest master key. A wrong digest stays wrong."""
        return {"digest": self._vault.renewed_digest(_signed(row, _closed_day(row)), row.digest)}


def day_faults(low: str, high: str, vault: Vault | None) -> Iterator[tuple[str, str]]:
    """Yield each closed day with a proof whose id is within (low, high], and the rule that it breaks.

    Without `vault`, which has the master keys, a forged digest cannot be recognised.
    """
    for row in DayProof.select().where(DayProof.id > low, DayProof.id <= high):
        closed = _closed_day(row)
        try:
            fault = _fault_of(row, closed, vault)
        except (ValueError, TypeError, KeyError):
            # A value that was edited by hand and cannot be read.
            fault = OTHER_PROOF
        if fault is not None:
            yield f"{row.account} {row.day}", fault


def _fault_of(row: DayProof, closed: ClosedDay, vault: Vault | None) -> str | None:
    if vault is not None and not vault.has_digest(_signed(row, closed), row.digest):
        return OTHER_PROOF
    if row.first_at is None:
        return None
    covered = Coverage(tuple(row.statements), row.first_at, row.last_at)
    bridge = bridge_of(row.account, date.fromisoformat(row.day), covered, closed.closed_at)
    found = bridge.ours_cents, bridge.theirs_cents, [asdict(step) for step in bridge.steps], bridge.content
    kept = closed.ours_cents, closed.theirs_cents, closed.bridge, row.content
    return None if found == kept and not bridge.missing and not bridge.open_count else OTHER_BOOKS


def _closed_day(row: DayProof) -> ClosedDay:
    closed: ClosedDay = ClosedDay.get(ClosedDay.account == row.account, ClosedDay.day == row.day)
    return closed


def _signed(row: DayProof, closed: ClosedDay) -> bytes:
    """The content of the digest: all of the closed day and of its proof."""
    values = [columns_of(closed), {name: value for name, value in columns_of(row).items() if name != "digest"}]
    signed = [[(name, _plain(each[name])) for name in sorted(each)] for each in values]
    return b"closed day\0" + orjson.dumps(signed)


def _plain(value: object) -> object:
    return iso_milliseconds(value) if isinstance(value, datetime) else value
