"""Results for lines of a statement, and the digests by which lines of two statements are the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from ussd_server.providers.statement_format import LineStatus, LineType
from ussd_server.services.reconciliation.comparing.our_payments import OurPayment
from ussd_server.services.reconciliation.messages import ComparedLine, Verdict
from ussd_server.services.reconciliation.reading.statement_lines import ProviderLine


@dataclass(frozen=True, slots=True)
class Match:
    """The result for a line, from the lines up to it.

    `unmoved` is the status of a line that names a payment of ours and moved no money: another line of the statement may
    report the payment's success. It is None for a final result. `our_cents` is what the line adds to our sum if no such
    line follows. `is_by_name`: the payment has another receipt than the line. `at` and `receipt` are of the line.
    """

    compared: ComparedLine
    unmoved: LineStatus | None = None
    our_cents: int = 0
    is_by_name: bool = False
    at: datetime | None = None
    receipt: str = ""


def result_of(
    line: ProviderLine | None,
    verdict: Verdict,
    ours: OurPayment | None,
    our_value: int | str | None,
    their_value: int | str | None,
    *,
    is_difference: bool = False,
) -> ComparedLine:
    provider_id = line.provider_id if line else ours.provider_transaction_id if ours else None
    reference = (line.reference if line else None) or (ours.name_there if ours else None)
    return ComparedLine(
        line=line.line if line else None,
        verdict=verdict,
        provider_id=provider_id or None,
        reference=reference or None,
        transaction_id=ours.id if ours else None,
        ours=our_value,
        theirs=their_value,
        is_difference=is_difference,
        dated=line.dated if line else None,
        party=line.party if line else None,
        at=None if line or ours is None else ours.completed_at,
    )


def receipt_of(line: ProviderLine) -> str:
    """The digest by which lines of two statements are the same: of their kind and the provider's id."""
    kind = line.type if line.type in (LineType.FEE, LineType.REVERSAL) else "payment"
    return digest_of_names(kind, line.provider_id, line.reference, line.dated, line.party)


def digest_of_names(
    kind: str, provider_id: str | None, reference: str | None, dated: str | None, party: str | None
) -> str:
    """The digest of what names a line: the provider's id, else our reference, else its date and party."""
    name = provider_id or reference or f"{dated} {party}"
    return hashlib.blake2b(f"{kind} {name}".encode(), digest_size=16).hexdigest()
