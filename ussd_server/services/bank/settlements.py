"""Settlements: what clients are due, and what the operator has paid to their banks.

A CSV file is proposed here, completed with the bank's references, and recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import date, datetime
from decimal import Decimal
from io import BytesIO
from itertools import islice
from typing import Any, BinaryIO

from ussd_server.context import RequestContext, operator_context
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.ledger import BankAccount
from ussd_server.models.transactions import Transaction
from ussd_server.runtime import Runtime
from ussd_server.services.accounts.balances import BalanceService
from ussd_server.services.accounts.ledger import BANK_ACCOUNT
from ussd_server.services.accounts.messages import GetBalances
from ussd_server.services.accounts.statements import StatementService
from ussd_server.services.bank.messages import (
    LARGEST_FILE_BYTES,
    DueSettlement,
    RecordSettlements,
    SettlementLine,
    SettlementView,
)
from ussd_server.services.gates.messages import WayOut
from ussd_server.services.operator_names import require_two_names
from ussd_server.services.transactions.bookings import audited, book
from ussd_server.services.transactions.create import RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, CreatedTransaction, TransactionType
from ussd_server.services.transactions.transactions import SETTLEMENT
from ussd_server.spreadsheets.delimited import csv_parts, neutralised, shillings_cell
from ussd_server.spreadsheets.headings import Headings, find_columns
from ussd_server.spreadsheets.reader import read_rows
from ussd_server.spreadsheets.rows import FileBounds, Row, SpreadsheetError
from ussd_server.status import Code, ServiceError
from ussd_server.values import bounds_of_day, cents_of, is_id

_COLUMNS = ("client_id", "client", "bank", "number", "name", "amount", "currency", "bank_reference")

_MOST_LINES = 5000
_BELOW = Decimal(10) ** 13
_LONGEST_REFERENCE = 59
_BOUNDS = FileBounds(
    most_bytes=LARGEST_FILE_BYTES,
    most_unpacked_bytes=16 * LARGEST_FILE_BYTES,
    most_elements=200_000,
    most_columns=32,
    most_cell_characters=1000,
    most_characters=4 * LARGEST_FILE_BYTES,
)
_MOST_LISTED = 1000
_TOO_LITTLE = "amount: The client has less available."


class BankSettlementService:
    """Proposes settlements, and records those that the bank has made. The service itself pays nothing to a bank."""

    def __init__(
        self, runtime: Runtime, creator: TransactionCreator, balances: BalanceService, statements: StatementService
    ) -> None:
        self._creator = creator
        self._balances = balances
        self._statements = statements
        self._clock = runtime.clock

    def propose(self, day: date | None, context: RequestContext) -> tuple[DueSettlement, ...]:
        """The sums due to clients with a confirmed bank account, by the clients' names; no line for a sum of nothing.

        A client is due what its main account had available at the end of a day in Kampala (None: now), as far as it
        still has it, less what stays here; nothing below its minimum. INVALID_REQUEST for a day that is not over.
        """
        context.require_operator()
        until = None if day is None else bounds_of_day(day)[1]
        if until is not None and until > self._clock.now():
            raise ServiceError(Code.INVALID_REQUEST, "date: The day is not over")
        rows: Any = (
            BankAccount.select(BankAccount, Client)
            .join(Client, on=(Client.id == BankAccount.client_id), attr="client")
            .where(BankAccount.confirmed_at.is_null(False))
            .order_by(Client.name, Client.id)
        )
        return tuple(
            DueSettlement(row.client_id, row.client.name, row.bank, row.number, row.name, cents)
            for row in rows
            if (cents := self._due_cents(row, until)) > 0
        )

    def file(self, day: date | None, context: RequestContext) -> Iterator[bytes]:
        """The same as a CSV file, to be completed with the bank's references."""
        return _written(self.propose(day, context))

    def record(self, request: RecordSettlements, context: RequestContext) -> tuple[SettlementView, ...]:
        """Record every line that has a bank reference: all of them or none. The same file again changes nothing.

        INVALID_REQUEST, which names row and column, for a file with a bad line: a client or bank account that is not
        the confirmed one, a bank reference that another amount has, more than the client has available.
        """
        lines = sorted(_read_settlements(request.source), key=lambda line: (line.client_id, line.line))
        with unit_of_work():
            return tuple(self.record_line(line, request.by, request.second, context) for line in lines)

    def read(self, file: bytes, context: RequestContext) -> Sequence[SettlementLine]:
        """The lines of a file that have a bank reference. INVALID_REQUEST for a bad line, or without any."""
        context.require_operator()
        lines = _read_settlements(BytesIO(file))
        if not lines:
            raise ServiceError(Code.INVALID_REQUEST, "No line has a bank reference.")
        return lines

    def record_line(self, line: SettlementLine, by: str, second: str, context: RequestContext) -> SettlementView:
        """Record one settlement, as `record` does."""
        context.require_operator()
        names = require_two_names(by, second)
        with _refusals_of(line):
            created = self._record(line, names, context)
        made, client = created.transaction, Client.get_by_id(line.client_id).name
        return SettlementView(
            made.transaction_id,
            line.client_id,
            client,
            made.amount_cents,
            line.bank_reference,
            made.created_at,
            created.replayed,
        )

    def require_recordable(self, line: SettlementLine, context: RequestContext) -> None:
        """INVALID_REQUEST unless the bank account is the confirmed one and the client has so much available."""
        context.require_operator()
        with _refusals_of(line):
            _require_account(line)
        if self._balances.get(None, operator_context(line.client_id)).available_cents < line.amount_cents:
            raise _bad_line(line.line, _TOO_LITTLE)

    def list(self, context: RequestContext) -> tuple[SettlementView, ...]:
        """The newest 1,000 settlements of all clients, or of the client that the operator acts for."""
        context.require_operator()
        rows: Any = (
            Transaction.select(Transaction, Client)
            .join(Client, on=(Client.id == Transaction.client_id), attr="client")
            .where(Transaction.type == TransactionType.SETTLEMENT)
        )
        if context.caller.client_id is not None:
            rows = rows.where(Transaction.client_id == context.caller.client_id)
        return tuple(
            SettlementView(
                row.id, row.client_id, row.client.name, row.amount_cents, row.provider_transaction_id, row.created_at
            )
            for row in rows.order_by(Transaction.id.desc()).limit(_MOST_LISTED)
        )

    def _due_cents(self, row: BankAccount, until: datetime | None) -> int:
        context = operator_context(row.client_id)
        due = self._balances.get(None, context).available_cents
        if until is not None:
            due = min(due, *self._statements.balances(GetBalances(MAIN_ACCOUNT, (until,)), context))
        due -= row.keep_cents or 0
        return due if due >= (row.minimum_cents or 0) else 0

    def _record(self, line: SettlementLine, names: Sequence[str], context: RequestContext) -> CreatedTransaction:
        _require_account(line)
        reference = f"{SETTLEMENT}{line.bank_reference}"
        digest = digest_of({"settlement": line.amount_cents, "reference": reference})

        def within(row: Transaction) -> AbstractContextManager[None]:
            _require_account(line)
            return audited(row, "transaction.settled_to_bank", context, line.bank_reference, ", ".join(names))

        return book(
            self._creator,
            RequestIdentity(line.client_id, TransactionType.SETTLEMENT, digest, reference),
            line.amount_cents,
            MAIN_ACCOUNT,
            BANK_ACCOUNT,
            within,
            sending=self._creator.gate.admit(WayOut.SETTLEMENT, operator_context(line.client_id)),
            provider_transaction_id=line.bank_reference,
            request_id=context.request_id,
        )


def _written(due: Iterable[DueSettlement]) -> Iterator[bytes]:
    """The file of what clients are due, in parts; the last column is left for the bank's references."""
    rows = (
        (each.client_id, each.client, each.bank, each.number, each.name, shillings_cell(each.amount_cents), "UGX", "")
        for each in due
    )
    return csv_parts(_COLUMNS, rows)


def _read_settlements(source: BinaryIO) -> list[SettlementLine]:
    """The lines that have a bank reference. INVALID_REQUEST, naming row and column, for the first bad one."""
    try:
        rows = read_rows(source, _BOUNDS)
        headings = find_columns(rows, {name: (name,) for name in _COLUMNS}, [(name,) for name in _COLUMNS])
        found = list(islice(rows, _MOST_LINES + 1))
    except SpreadsheetError as error:
        raise ServiceError(Code.INVALID_REQUEST, str(error)) from None
    if len(found) > _MOST_LINES:
        raise ServiceError(Code.INVALID_REQUEST, f"The file has more than {_MOST_LINES:,} rows; divide it.")
    lines = [_read_line(row, headings) for row in found if row.cell(headings.columns["bank_reference"])]
    named: dict[tuple[str, str], int] = {}
    for each in lines:
        earlier = named.setdefault((each.client_id, each.bank_reference), each.line)
        if earlier != each.line:
            raise _bad_line(each.line, f"bank_reference: Row {earlier} has it for the same client.")
    return lines


def _is_same_account(line: SettlementLine, bank: str, number: str, name: str) -> bool:
    """Whether a line names a bank account, as `_written` writes it."""
    return (line.bank, line.number, line.name) == (neutralised(bank), neutralised(number), neutralised(name))


def _bad_line(line: int, problem: str) -> ServiceError:
    """The refusal of a file for one of its lines."""
    return ServiceError(Code.INVALID_REQUEST, f"Row {line}, {problem} Nothing was recorded.")


def _read_line(row: Row, headings: Headings) -> SettlementLine:
    cells = {name: row.cell(index) for name, index in headings.columns.items()}
    if not is_id(cells["client_id"]):
        raise _bad_line(row.line, "client_id: Is not the id of a client.")
    if cells["currency"] != "UGX":
        raise _bad_line(row.line, "currency: Must be UGX.")
    amount_cents = cents_of(cells["amount"], below=_BELOW)
    if amount_cents is None:
        raise _bad_line(row.line, "amount: Must be more than 0 shillings, with at most two decimals.")
    reference = cells["bank_reference"]
    if len(reference) > _LONGEST_REFERENCE or not reference.isprintable():
        raise _bad_line(row.line, f"bank_reference: Must be at most {_LONGEST_REFERENCE} characters.")
    return SettlementLine(
        row.line, cells["client_id"], cells["bank"], cells["number"], cells["name"], amount_cents, reference
    )


def _require_account(line: SettlementLine) -> None:
    """INVALID_REQUEST unless the bank account of a line is the client's confirmed one."""
    account: Any = BankAccount.get_or_none(BankAccount.client_id == line.client_id)
    if account is None or account.confirmed_at is None:
        raise ServiceError(Code.INVALID_REQUEST, "client_id: No confirmed bank account.")
    if not _is_same_account(line, account.bank, account.number, account.name):
        raise ServiceError(Code.INVALID_REQUEST, "number: Is not the client's confirmed bank account.")


@contextmanager
def _refusals_of(line: SettlementLine) -> Iterator[None]:
    """Name the line in what is refused."""
    try:
        yield
    except ServiceError as refusal:
        problem = refusal.message
        if refusal.code is Code.INSUFFICIENT_BALANCE:
            problem = _TOO_LITTLE
        elif refusal.code is Code.IDEMPOTENCY_KEY_REUSED:
            problem = "bank_reference: Was recorded with another amount."
        raise _bad_line(line.line, problem) from None
