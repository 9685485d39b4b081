"""What the books say of the money at each provider and the bank, beside what its movements add up to."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Annotated

from ussd_server.database.unit_of_work import run_query
from ussd_server.services.gates.given_back import IS_GIVEN_BACK
from ussd_server.wire import Cents

OTHER_SUM = "has another sum in the ledger than its movements"
# Money that came in counts positive. A provider's account is debited for it, the bank's account is not.
_IN_THE_LEDGER = """
    SELECT CASE kind WHEN 'bank' THEN 'bank' ELSE substr(name, 10) END, -sum(balance_cents)
    FROM ledger_accounts WHERE kind IN ('provider', 'bank') GROUP BY 1"""
_BY_MOVEMENTS = """
    SELECT account, sum(CASE direction WHEN 'in' THEN amount_cents ELSE -amount_cents END)
    FROM movements WHERE same_as IS NULL AND {condition} GROUP BY 1"""
_UNEXPLAINED = "(use_kind IS NULL OR use_kind = 'returned') AND counterpart IS NULL AND told <> '[]'"
# A payment of ours is its own movement. What the bank sent back is a deposit.
_BY_PAYMENTS = """
    SELECT CASE WHEN type IN ('settlement', 'deposit') THEN 'bank' ELSE provider_account END,
        sum(CASE WHEN type IN ('collection', 'deposit') THEN amount_cents ELSE -amount_cents END)
    FROM transactions AS paid WHERE status IN ('succeeded', 'reversed')
        AND (type IN ('collection', 'disbursement', 'refund', 'settlement')
            OR (type = 'deposit' AND substr(reference, 1, 14) = 'bank/returned/'))
        AND NOT {is_given_back} AND NOT EXISTS (SELECT 1 FROM movements WHERE movements.transaction_id = paid.id)
    GROUP BY 1"""


@dataclass(frozen=True, slots=True)
class AccountSums:
    """The money that moved at a provider or the bank, in positive, out negative: three sums that belong together."""

    account: Annotated[str, "The account at a provider, or `bank`."]
    ledger_cents: Annotated[Cents, "What the ledger says moved."]
    used_cents: Annotated[Cents, "What the used movements add up to: the same, or the books are wrong."]
    held_cents: Annotated[Cents, "What moved and has no use yet, or is to be given back."]


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What a client's account lacked when money had left."""

    client_id: str
    amount_cents: Cents


def account_sums() -> list[AccountSums]:
    """The sums of every account at which money moved, over all clients."""
    ledger, used, held = (defaultdict[str, int](int) for _ in range(3))
    for sums, query in (
        (ledger, _IN_THE_LEDGER),
        (used, _BY_MOVEMENTS.format(condition="transaction_id IS NOT NULL")),
        (used, _BY_PAYMENTS.format(is_given_back=IS_GIVEN_BACK)),
        (held, _BY_MOVEMENTS.format(condition=_UNEXPLAINED)),
    ):
        for account, cents in run_query(query).fetchall():
            sums[account] += int(cents)
    names = sorted({*ledger, *used, *held})
    return [AccountSums(name, ledger[name], used[name], held[name]) for name in names]


def shortfalls() -> list[Shortfall]:
    """The clients with a shortfall."""
    owed = "SELECT client_id, -balance_cents FROM ledger_accounts WHERE kind = 'shortfall' AND balance_cents <> 0"
    return [Shortfall(str(client_id), int(cents)) for client_id, cents in run_query(owed).fetchall()]
