"""Payments of other accounts that a statement names: it is the statement of another one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ussd_server.models.transactions import Transaction
from ussd_server.services.reconciliation.reading.statement_lines import ProviderLine
from ussd_server.spreadsheets.rows import SpreadsheetError
from ussd_server.values import is_id, with_hyphens

_MOST_NAMED = 10
_COLUMNS = (
    Transaction.id,
    Transaction.provider,
    Transaction.provider_account,
    Transaction.provider_transaction_id,
    Transaction.amount_cents,
)


class OtherAccounts:
    """Looks for what no payment of the account has: by our name, or by receipt and amount at the same provider."""

    def __init__(self, account: str, provider: str) -> None:
        self._account, self._provider = account, provider
        self._named: dict[str, str] = {}

    def note(self, lines: Sequence[ProviderLine], found: Sequence[Collection[str | None]]) -> None:
        """Note the payments of other accounts that some lines name; `found` are our names of those of the account.

        Two accounts may give the same receipt: a line with one of ours may name a payment of another account.
        """
        if len(self._named) >= _MOST_NAMED:
            return
        references = {
            reference
            for line, names in zip(lines, found, strict=True)
            if is_id(reference := with_hyphens(line.reference)) and reference not in names
        }
        for column in (Transaction.provider_reference, Transaction.id):
            self._named |= {row.id: row.provider_account for row in self._select(column, references)}
        unknown = [line for line, names in zip(lines, found, strict=True) if line.provider_id and not names]
        moved = {(line.provider_id, line.amount_cents) for line in unknown}
        for row in self._select(Transaction.provider_transaction_id, {receipt for receipt, _ in moved}):
            if row.provider == self._provider and (row.provider_transaction_id, row.amount_cents) in moved:
                self._named[row.id] = row.provider_account

    def refuse(self) -> None:
        """Raise SpreadsheetError, with ten of them, if lines named payments of other accounts."""
        if self._named:
            named = ", ".join(f"{id_} ({account})" for id_, account in list(self._named.items())[:_MOST_NAMED])
            raise SpreadsheetError(f"The file is not of the account {self._account}: it names {named}.")

    def _select(self, column: Any, values: Collection[str]) -> Any:
        is_other = column.in_(list(values)) & (Transaction.provider_account != self._account)
        return Transaction.select(*_COLUMNS).where(is_other).order_by(Transaction.id) if values else ()
