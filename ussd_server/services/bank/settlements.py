"""Settlements: what clients are due, reserved before the bank pays it, and recorded when the bank has paid.

A settlement is a transaction. It is created with a reservation of its money, and waits without a worker until operators
record the bank's reference or cancel it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, timedelta
from io import BytesIO
from typing import Any

from ussd_server.context import RequestContext, operator_context
from ussd_server.database.tables import find_row
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.clients import Client, is_client_active
from ussd_server.models.ledger import BankAccount, read_holding
from ussd_server.models.movements import OUT
from ussd_server.models.transactions import QUEUED_UNTIL, Transaction
from ussd_server.providers.failures import FailureCode
from ussd_server.services.accounts.balances import BalanceService
from ussd_server.services.accounts.ledger import BANK_ACCOUNT, SHORTFALL_ACCOUNT, lacking_cents, lock_accounts
from ussd_server.services.accounts.messages import GetBalances
from ussd_server.services.accounts.statements import StatementService
from ussd_server.services.bank.bank_accounts import shown_account
from ussd_server.services.bank.files import file_of, read_file
from ussd_server.services.bank.messages import (
    DueSettlement,
    EndSettlement,
    ProposeSettlements,
    RecordSettlements,
    SettlementLine,
    SettlementView,
)
from ussd_server.services.bank.settlement_rows import (
    CANCELLED,
    IS_SETTLEMENT,
    PROPOSED,
    RECORDED,
    WAITS,
    account_parts,
    confirmed_accounts,
    line_refusal,
    locked_settlement,
    operators_of,
    refusals_of,
    require_own_account,
    settled_since,
    settlement_of,
)
from ussd_server.services.gates.messages import WayIn, WayOut
from ussd_server.services.gates.movements import recovering
from ussd_server.services.gates.receipts import BANK, lock_receipts
from ussd_server.services.operator_names import require_name, require_two_names
from ussd_server.services.processing.outcomes import fail, succeed
from ussd_server.services.runtime import Runtime
from ussd_server.services.signatures import UNSIGNED, is_row_signed
from ussd_server.services.sms.receipts import ReceiptWriter
from ussd_server.services.transactions.audited import audit_payment, audited
from ussd_server.services.transactions.create import DraftColumns, Plan, RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.history import append_change
from ussd_server.services.transactions.messages import (
    MAIN_ACCOUNT,
    SUCCESSFUL,
    ChangeDetail,
    Source,
    TransactionStatus,
    TransactionType,
)
from ussd_server.services.transactions.transactions import RETURNED_SETTLEMENT, SETTLEMENT
from ussd_server.status import Code, ServiceError
from ussd_server.values import bounds_of_day, new_id

_MOST_LISTED = 1000
_LONG_WAIT = timedelta(days=7)


class BankSettlementService:
    """Reserves settlements, and records those that the bank has made. The service itself pays nothing to a bank."""

    def __init__(
        self, runtime: Runtime, creator: TransactionCreator, balances: BalanceService, statements: StatementService
    ) -> None:
        self._creator, self._receipts = creator, ReceiptWriter(runtime)
        self._balances = balances
        self._statements = statements
        self._clock, self._vault = runtime.clock, runtime.vault

    def due(self, day: date | None, context: RequestContext) -> tuple[DueSettlement, ...]:
        """The sums due to active clients with a confirmed bank account, by the clients' names; no line for nothing.

        A client is due what its main account had available at the end of a day in Kampala (None: now), as far as it
        still has it and it was not settled since, less what stays here and its shortfall; nothing below its minimum.
        INVALID_REQUEST for a day that is not over.
        """
        context.require_operator()
        until = self._end_of(day)
        return tuple(
            _due(row, row.client, cents) for row in confirmed_accounts() if (cents := self._due_cents(row, until)) > 0
        )

    def propose(self, request: ProposeSettlements, context: RequestContext) -> tuple[DueSettlement, ...]:
        """Reserve what each client is due, as one settlement each; return them by the clients' names. Raises as `due`.

        SERVICE_UNAVAILABLE while money is held. Each client's settlement is a database transaction of its own, so that
        payments wait for one at most.
        """
        context.require_operator()
        by, until = require_name(request.by), self._end_of(request.day)
        self._creator.gate.require_open()
        settlements = []
        for client in [row.client for row in confirmed_accounts()]:
            with unit_of_work():
                lock_accounts(client.id, {MAIN_ACCOUNT})
                # Since the list was read, an owner may have stated another account, or the client was disabled.
                confirmed = (BankAccount.client_id == client.id) & BankAccount.confirmed_at.is_null(False)
                account = for_update(BankAccount.select().where(confirmed)).first()
                if account is None or not is_client_active(client.id):
                    continue
                cents = self._due_cents(account, until)
                if cents > 0:
                    self._require_signed(client.id)
                    settlements.append(self._reserve(_due(account, client, cents), by, context))
        return tuple(settlements)

    def waiting(self, context: RequestContext) -> tuple[DueSettlement, ...]:
        """The settlements that the bank may pay, oldest first. SERVICE_UNAVAILABLE while money is held.

        Those of disabled clients, and of clients whose confirmed bank account is another one by now, are missing.
        """
        context.require_operator()
        self._creator.gate.require_open()
        rows: Any = (
            Transaction.select(Transaction, Client, BankAccount)
            .join(Client, on=(Client.id == Transaction.client_id), attr="client")
            .join(BankAccount, on=(BankAccount.client_id == Client.id), attr="account_at_bank")
            .where(WAITS, Client.is_active, BankAccount.confirmed_at.is_null(False))
            .order_by(Transaction.id)
        )
        return tuple(
            _due(row.client.account_at_bank, row.client, row.amount_cents).with_id(row.id)
            for row in rows
            if row.metadata == account_parts(row.client.account_at_bank)
        )

    def file(self, settlements: Iterable[DueSettlement]) -> Iterator[bytes]:
        """The file of reserved settlements for the bank, to be completed with the bank's references."""
        return file_of(settlements)

    def count_late(self, context: RequestContext) -> int:
        """How many settlements were proposed more than seven days ago, and neither recorded nor cancelled."""
        context.require_operator()
        late = Transaction.select().where(WAITS, Transaction.created_at < self._clock.now() - _LONG_WAIT)
        return int(late.count())

    def record(self, request: RecordSettlements, context: RequestContext) -> tuple[SettlementView, ...]:
        """Record every line that has a bank reference: all of them or none. The same file again changes nothing.

        INVALID_REQUEST, which names row and column, for a file with a bad line: without a settlement, with another
        client, amount or bank account than its settlement's, of a settlement that was recorded with another reference,
        or with the bank reference of another settlement; and unless the request says that the bank has paid all the
        same, of a settlement that it should not have paid (`waiting`), that was cancelled or that is not known. What
        the client has not is its shortfall.
        """
        lines = sorted(read_file(request.source, request.is_paid), key=lambda line: (line.client_id, line.line))
        with unit_of_work():
            lock_receipts(BANK, OUT, (line.bank_reference for line in lines))
            return tuple(self.record_line(line, request.by, request.second, context) for line in lines)

    def read(self, file: bytes, context: RequestContext, *, is_paid: bool = False) -> Sequence[SettlementLine]:
        """The lines of a file that have a bank reference. INVALID_REQUEST for a bad line, or without any."""
        context.require_operator()
        lines = read_file(BytesIO(file), is_paid)
        if not lines:
            raise ServiceError(Code.INVALID_REQUEST, "No line has a bank reference.")
        return lines

    def record_line(self, line: SettlementLine, by: str, second: str, context: RequestContext) -> SettlementView:
        """Record one settlement, as `record` does."""
        context.require_operator()
        names = require_two_names(by, second)
        with unit_of_work(), refusals_of(line):
            row = settlement_of(line)
            is_new = row is None or row.status not in SUCCESSFUL
            if row is None:
                row = self._book_forgotten(line, names, context)
            elif is_new:
                self._post(row, line.bank_reference, names, context, self._accepted_fault(row, line))
        return _view(row, replayed=not is_new)

    def require_recordable(self, line: SettlementLine, context: RequestContext) -> str:
        """Return the state of the settlement of a line, locked: its status, and why the bank should not have paid it.

        INVALID_REQUEST where `record` refuses the line.
        """
        context.require_operator()
        with refusals_of(line):
            row = settlement_of(line)
            if row is None:
                require_own_account(line)
                return "The database does not know it"
            fault = self._accepted_fault(row, line) if row.status not in SUCCESSFUL else None
            return f"{row.status}. {fault}" if fault else str(row.status)

    def cancel(self, request: EndSettlement, context: RequestContext) -> SettlementView:
        """Release the money of a settlement that the bank does not pay. NOT_FOUND for an unknown one.

        INVALID_REQUEST unless two different people are named, and for a settlement that was recorded.
        """
        context.require_operator()
        names, now = require_two_names(request.by, request.second), self._clock.now()
        with unit_of_work():
            row = locked_settlement(request.settlement_id)
            if row.status in SUCCESSFUL:
                raise ServiceError(
                    Code.INVALID_REQUEST, f"The bank has paid the settlement, as {row.provider_transaction_id}"
                )
            if row.status == TransactionStatus.CREATED:
                row.updated_at = now
                fail(row, FailureCode.CANCELLED, Source.OPERATOR, now, ChangeDetail(note="The bank does not pay it"))
                audit_payment(row, CANCELLED, context, now, row.provider_transaction_id, ", ".join(names))
        return _view(row)

    def record_return(self, request: EndSettlement, context: RequestContext) -> SettlementView:
        """Record that the bank sent the money of a settlement back, which credits the main account. NOT_FOUND.

        INVALID_REQUEST unless two different people are named, and for a settlement that was never recorded.
        """
        context.require_operator()
        names, now = require_two_names(request.by, request.second), self._clock.now()
        with unit_of_work():
            row = locked_settlement(request.settlement_id)
            if row.status not in SUCCESSFUL:
                raise ServiceError(Code.INVALID_REQUEST, "The settlement was not recorded, so nothing can come back")
            if row.status == TransactionStatus.SUCCEEDED:
                self._credit(row, names, context)
                row.status, row.updated_at = TransactionStatus.REVERSED, now
                row.save(only=[Transaction.status, Transaction.updated_at])
                append_change(row, Source.OPERATOR, now, ChangeDetail(note="The bank sent it back"))
        return _view(row)

    def list(self, context: RequestContext) -> tuple[SettlementView, ...]:
        """The newest 1,000 settlements of all clients, or of the client that calls or for which the operator acts."""
        if context.caller.client_id is None:
            context.require_operator()
        context.require("statements:read")
        rows: Any = (
            Transaction.select(Transaction, Client)
            .join(Client, on=(Client.id == Transaction.client_id), attr="client")
            .where(IS_SETTLEMENT)
        )
        if context.caller.client_id is not None:
            rows = rows.where(Transaction.client_id == context.caller.client_id)
        found = list(rows.order_by(Transaction.id.desc()).limit(_MOST_LISTED))
        operators = operators_of(found)
        return tuple(_view(row, row.client.name, operators[row.id]) for row in found)

    def _end_of(self, day: date | None) -> datetime | None:
        until = None if day is None else bounds_of_day(day)[1]
        if until is not None and until > self._clock.now():
            raise ServiceError(Code.INVALID_REQUEST, "date: The day is not over")
        return until

    def _due_cents(self, row: BankAccount, until: datetime | None) -> int:
        context = operator_context(row.client_id)
        due = self._balances.get(None, context).available_cents
        if until is not None:
            (had,) = self._statements.balances(GetBalances(MAIN_ACCOUNT, (until,)), context)
            due = min(due, had - settled_since(row.client_id, until))
        due -= (row.keep_cents or 0) - read_holding(row.client_id, SHORTFALL_ACCOUNT).balance_cents
        return due if due >= (row.minimum_cents or 0) else 0

    def _accepted_fault(self, row: Transaction, line: SettlementLine) -> str | None:
        """As `_fault_of`. INVALID_REQUEST for a reason unless the line says that the bank has paid all the same."""
        fault = self._fault_of(row)
        if fault is not None and not line.is_paid:
            raise line_refusal(f"settlement_id: {fault}. If the bank has paid it, use `settlements record --paid`.")
        return fault

    def _fault_of(self, row: Transaction) -> str | None:
        """Why the bank should not have paid a locked settlement, as a sentence without a full stop; None for no reason.

        INVALID_REQUEST for a bank account that something else than the service has changed.
        """
        self._require_signed(row.client_id)
        if row.status == TransactionStatus.FAILED:
            return "The settlement was cancelled"
        account: Any = BankAccount.get_or_none(BankAccount.client_id == row.client_id)
        if account is None or account.confirmed_at is None or account_parts(account) != row.metadata:
            return "The client has another bank account by now"
        return self._creator.gate.fault_of(row)

    def _require_signed(self, client_id: str) -> None:
        """INVALID_REQUEST for a bank account that something else than the service has changed."""
        if not is_row_signed(self._vault, BankAccount, client_id):
            raise line_refusal(f"The bank account of client {client_id} {UNSIGNED}; an owner has to state it again.")

    def _reserve(self, due: DueSettlement, by: str, context: RequestContext) -> DueSettlement:
        columns = _columns_of(due, by, context)
        plan = Plan(due.amount_cents, columns, holds=(MAIN_ACCOUNT, BANK_ACCOUNT), due_at=QUEUED_UNTIL)
        identity = _identity_of(due, new_id(self._clock.now()))
        sending = self._creator.gate.admit(WayOut.SETTLEMENT, operator_context(due.client_id))
        created = self._creator.create(
            identity, plan, Source.OPERATOR, lambda row: audited(row, PROPOSED, context, None, by), sending
        )
        return due.with_id(created.transaction.transaction_id)

    def _post(
        self, row: Transaction, bank_reference: str, names: Sequence[str], context: RequestContext, fault: str | None
    ) -> None:
        """Post what a settlement reserved, under the bank's reference. Call in a unit of work, with the row locked.

        `fault` is why the bank should not have paid it; its history says so.
        """
        now = self._clock.now()
        row.provider_transaction_id, row.updated_at = bank_reference, now
        detail = ChangeDetail(note=fault and f"{fault}, and the bank has paid all the same")
        if not succeed(row, Source.OPERATOR, now, self._receipts, detail, WayIn.SETTLEMENT):
            raise line_refusal(f"bank_reference: Was recorded as transaction {row.contested_id}.")
        audit_payment(row, RECORDED, context, now, row.provider_transaction_id, ", ".join(names))

    def _book_forgotten(self, line: SettlementLine, names: Sequence[str], context: RequestContext) -> Transaction:
        """Book what the bank has paid of a settlement that a restore lost. Call in a unit of work."""
        require_own_account(line)
        lacking = lacking_cents(line.client_id, MAIN_ACCOUNT, BANK_ACCOUNT, line.amount_cents)
        columns = _columns_of(line, names[0], context)
        columns["provider_transaction_id"] = line.bank_reference
        plan = Plan(line.amount_cents, columns, moves=(MAIN_ACCOUNT, BANK_ACCOUNT), lacking_cents=lacking)
        within = recovering(lambda row: audited(row, RECORDED, context, line.bank_reference, ", ".join(names)))
        sending = self._creator.gate.admit(WayOut.RECOVERY, context)
        identity = _identity_of(line, line.settlement_id)
        created = self._creator.create(identity, plan, Source.OPERATOR, within, sending)
        return find_row(Transaction, created.transaction.transaction_id)

    def _credit(self, row: Transaction, names: Sequence[str], context: RequestContext) -> None:
        """Credit what the bank sent back, as a deposit from the account `bank`."""
        reference = f"{RETURNED_SETTLEMENT}{row.id}"
        digest = digest_of({"deposit": row.amount_cents, "reference": reference})
        about = row.provider_transaction_id, ", ".join(names)
        columns = DraftColumns(
            account=MAIN_ACCOUNT,
            description=f"Sent back by the bank: {row.provider_transaction_id}",
            request_id=context.request_id,
            operator=names[0],
        )
        plan = Plan(row.amount_cents, columns, moves=(BANK_ACCOUNT, MAIN_ACCOUNT))
        identity = RequestIdentity(
            row.client_id, TransactionType.DEPOSIT, digest, reference, content={"amount_cents": row.amount_cents}
        )
        action = "transaction.settlement_returned"
        self._creator.create(identity, plan, Source.OPERATOR, lambda made: audited(made, action, context, *about))


def _columns_of(due: DueSettlement | SettlementLine, by: str, context: RequestContext) -> DraftColumns:
    return DraftColumns(
        account=MAIN_ACCOUNT,
        description=shown_account(due.bank, due.number, due.name),
        metadata=account_parts(due),
        request_id=context.request_id,
        operator=by,
    )


def _identity_of(due: DueSettlement | SettlementLine, settlement_id: str) -> RequestIdentity:
    reference = f"{SETTLEMENT}{settlement_id}"
    digest = digest_of({"settlement": due.amount_cents, "reference": reference})
    return RequestIdentity(due.client_id, TransactionType.SETTLEMENT, digest, reference)


def _due(account: BankAccount, client: Client, cents: int) -> DueSettlement:
    return DueSettlement(client.id, client.name, **account_parts(account), amount_cents=cents)


def _view(
    row: Transaction, client: str | None = None, operators: Sequence[str] | None = None, *, replayed: bool = False
) -> SettlementView:
    by, second, *_ = *(operators_of([row])[row.id] if operators is None else operators), None, None
    return SettlementView(
        row.id,
        row.client_id,
        client or Client.get_by_id(row.client_id).name,
        row.amount_cents,
        str(row.status),
        row.description,
        row.provider_transaction_id,
        row.created_at,
        by,
        second,
        replayed,
    )
