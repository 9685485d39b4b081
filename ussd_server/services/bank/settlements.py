"""Settlements: what clients are due, and what the operator has paid to their banks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from io import BytesIO
from typing import Any

from ussd_server.context import RequestContext, operator_context
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.ledger import BankAccount
from ussd_server.models.transactions import Transaction
from ussd_server.runtime import Runtime
from ussd_server.services.accounts.balances import BalanceService
from ussd_server.services.accounts.ledger import BANK_ACCOUNT, legs_of
from ussd_server.services.accounts.messages import GetBalances
from ussd_server.services.accounts.statements import StatementService
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.bank.messages import (
    DueSettlement,
    ProposeSettlements,
    RecordSettlements,
    SettlementLine,
    SettlementView,
)
from ussd_server.services.bank.settlement_files import bad_line, is_same_account, read_settlements, written_file
from ussd_server.services.operator_names import require_two_names
from ussd_server.services.reports.messages import bounds_of_day
from ussd_server.services.transactions.create import Prepared, RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, CreatedTransaction, Source, TransactionType
from ussd_server.services.transactions.transactions import SETTLEMENT
from ussd_server.status import Code, ServiceError

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

    def propose(self, request: ProposeSettlements, context: RequestContext) -> tuple[DueSettlement, ...]:
        """The sums due to clients with a confirmed bank account, by the clients' names; no line for a sum of nothing.

        A client is due what its main account had available at the end of the day, as far as it still has it, less what
        stays here; nothing below its minimum. INVALID_REQUEST for a day that is not over.
        """
        context.require_operator()
        until = None
        if request.date is not None:
            until = bounds_of_day(request.date)[1]
            if until > self._clock.now():
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

    def file(self, request: ProposeSettlements, context: RequestContext) -> Iterator[bytes]:
        """The same as a CSV file, to be completed with the bank's references."""
        return written_file(self.propose(request, context))

    def record(self, request: RecordSettlements, context: RequestContext) -> tuple[SettlementView, ...]:
        """Record every line that has a bank reference: all of them or none. The same file again changes nothing.

        INVALID_REQUEST, which names row and column, for a file with a bad line: a client or bank account that is not
        the confirmed one, a bank reference that another amount has, more than the client has available.
        """
        lines = sorted(read_settlements(request.source), key=lambda line: (line.client_id, line.line))
        with unit_of_work():
            return tuple(self.record_line(line, request.by, request.second, context) for line in lines)

    def read(self, file: bytes, context: RequestContext) -> Sequence[SettlementLine]:
        """The lines of a file that have a bank reference. INVALID_REQUEST for a bad line, or without any."""
        context.require_operator()
        lines = read_settlements(BytesIO(file))
        if not lines:
            raise ServiceError(Code.INVALID_REQUEST, "No line has a bank reference.")
        return lines

    def record_line(self, line: SettlementLine, by: str, second: str, context: RequestContext) -> SettlementView:
        """Record one settlement, as `record` does."""
        context.require_operator()
        names = require_two_names(by, second)
        try:
            created = self._record(line, names, context)
        except ServiceError as refusal:
            raise bad_line(line.line, _problem(refusal)) from None
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
        account: Any = BankAccount.get_or_none(BankAccount.client_id == line.client_id)
        if problem := _problem_of_account(account, line):
            raise bad_line(line.line, problem)
        if self._balances.get(None, operator_context(line.client_id)).available_cents < line.amount_cents:
            raise bad_line(line.line, _TOO_LITTLE)

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
        account: Any = BankAccount.get_or_none(BankAccount.client_id == line.client_id)
        reference = f"{SETTLEMENT}{line.bank_reference}"
        digest = digest_of({"settlement": line.amount_cents, "reference": reference})
        content = {"amount_cents": line.amount_cents}
        identity = RequestIdentity(line.client_id, TransactionType.SETTLEMENT, digest, reference, content=content)

        def prepare(identity: RequestIdentity) -> Prepared:
            if problem := _problem_of_account(account, line):
                raise ServiceError(Code.INVALID_REQUEST, problem)
            draft = self._creator.draft(
                identity,
                line.amount_cents,
                account=MAIN_ACCOUNT,
                provider_transaction_id=line.bank_reference,
                request_id=context.request_id,
            )
            return draft, legs_of(draft.row, "move", MAIN_ACCOUNT, BANK_ACCOUNT, fee_from=MAIN_ACCOUNT)

        @contextmanager
        def within(row: Transaction) -> Iterator[None]:
            with unit_of_work():
                yield
                write_audit_event(
                    "transaction.settled_to_bank",
                    context,
                    row.created_at,
                    client_id=row.client_id,
                    object_id=row.id,
                    reason=line.bank_reference,
                    amount_cents=row.amount_cents,
                    decided_by=", ".join(names),
                )

        return self._creator.create(identity, prepare, Source.OPERATOR, within)


def _problem_of_account(account: Any, line: SettlementLine) -> str | None:
    if account is None or account.confirmed_at is None:
        return "client_id: No confirmed bank account."
    if not is_same_account(line, account.bank, account.number, account.name):
        return "number: Is not the client's confirmed bank account."
    return None


def _problem(refusal: ServiceError) -> str:
    if refusal.code is Code.INSUFFICIENT_BALANCE:
        return _TOO_LITTLE
    if refusal.code is Code.IDEMPOTENCY_KEY_REUSED:
        return "bank_reference: Was recorded with another amount."
    return refusal.message
