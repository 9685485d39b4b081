"""Statements: the movements of an account within a period, with the balances before and after it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

from peewee import SQL, ModelSelect, fn

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, release_connection, unit_of_work
from ussd_server.models.ledger import Account, AccountEntry, Transfer
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.ledger import AMOUNT
from ussd_server.services.accounts.messages import (
    GetBalances,
    GetStatement,
    StatementCsv,
    StatementLine,
    StatementStream,
    StatementView,
)
from ussd_server.services.bulkhead import Bulkhead
from ussd_server.services.runtime import Runtime
from ussd_server.spreadsheets.delimited import csv_parts, shillings_cell
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA, iso_milliseconds

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_BEGINNING, _END = 0, 2**62
# Other requests of the process go on between two reads.
_LINES_AT_ONCE = 200
_RETRY_AFTER_SECONDS = 5
# A constant in the SQL: for a LIMIT that is a parameter, PostgreSQL expects a tenth of the rows and plans every call
# anew.
_ONE = SQL("1")
COLUMNS = ("at", "kind", "transaction_id", "reference", "description", "debit", "credit", "balance")
_AT_IN_KAMPALA = "at (Kampala, UTC+3)"
_POSITION = re.compile(r"(\d{1,19}):(\d{1,19})")


class _Period(NamedTuple):
    """The lines after `after_us` up to and with `until_us`, and the balances before and after them."""

    account_id: str
    after_us: int
    until_us: int
    opening_cents: int
    closing_cents: int


class StatementService:
    """Reads statements. Their cost does not grow with what is before the period."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._tokens = runtime.clock, runtime.tokens
        # The number of files that are sent at the same time.
        self._bulkhead = Bulkhead(16, 4)

    def get(self, request: GetStatement, context: RequestContext) -> StatementView:
        """A page of a statement, oldest line first; the cursor keeps the end of the period that the first page had.

        An account that was never used has an empty statement. Raises INVALID_REQUEST for a period that ends before it
        begins and for a cursor of another statement.
        """
        context.require("statements:read")
        account_id = _account_id(request, context)
        if account_id is None:
            return StatementView(0, 0, (), None)
        kind = f"statement/{account_id}/{request.from_at}/{request.to_at}"
        if request.cursor is None:
            period = self._period(account_id, request)
            after_us = period.after_us
        else:
            position = _POSITION.fullmatch(self._tokens.read_cursor(kind, request.cursor))
            assert position is not None
            after_us, until_us = map(int, position.groups())
            period = _read_period(account_id, _microseconds(request.from_at, _BEGINNING), until_us + 1)
        lines = list(_lines(period, after_us, request.limit + 1))
        page = lines[: request.limit]
        is_last = len(lines) <= request.limit
        return StatementView(
            period.opening_cents,
            period.closing_cents,
            tuple(line for _, line in page),
            None if is_last else self._tokens.cursor(kind, f"{page[-1][0]}:{period.until_us}"),
        )

    def balances(self, request: GetBalances, context: RequestContext) -> tuple[int, ...]:
        """The balance in cents before each moment, read in one statement; zeros for an account that was never used."""
        context.require("statements:read")
        named = Account.select().where(Account.client_id == context.client_id, Account.name == request.account)
        before = (_last_before(Account.id, _microseconds(moment, _END)) for moment in request.moments)
        row = named.select(*(entry.select(AccountEntry.balance_cents) for entry in before)).tuples().first()
        return tuple(cents or 0 for cents in row or [0] * len(request.moments))

    def stream(self, request: GetStatement, context: RequestContext) -> StatementStream:
        """The whole statement, read in parts and in constant memory. Raises what `get` raises."""
        context.require("statements:read")
        account_id = _account_id(request, context)
        if account_id is None:
            return StatementStream(0, 0, iter(()))
        period = self._period(account_id, request)
        return StatementStream(period.opening_cents, period.closing_cents, _all_lines(period))

    def csv(self, request: GetStatement, context: RequestContext, *, for_people: bool = False) -> StatementCsv:
        """The whole statement as a CSV file, made while it is sent.

        A file `for_people` has Kampala's time, and both balances as lines of their own.
        Raises what `get` raises, and SERVICE_UNAVAILABLE while too many files are being sent.
        """
        held = ExitStack()
        if not held.enter_context(self._bulkhead.permit(context.client_id)):
            raise ServiceError(
                Code.SERVICE_UNAVAILABLE, "Too many files are being sent", retry_after_seconds=_RETRY_AFTER_SECONDS
            )
        with held:
            statement = self.stream(request, context)
            lines = csv_parts(COLUMNS, map(_cells, statement.lines))
            return StatementCsv(
                shillings_cell(statement.opening_balance_cents),
                shillings_cell(statement.closing_balance_cents),
                _Parts(_file_for_people(request, statement) if for_people else lines, held.pop_all()),
            )

    def _period(self, account_id: str, request: GetStatement) -> _Period:
        """The period of a request, as it can be shown now: its past part is final."""
        from_us, to_us = _microseconds(request.from_at, _BEGINNING), _microseconds(request.to_at, _END)
        now_us = _microseconds(self._clock.now(), _END)
        over_us = max((bound for bound in (from_us, to_us) if bound <= now_us), default=_BEGINNING)
        if over_us > _BEGINNING and _last_posted_us(account_id) < over_us:
            # Lock the account to wait for postings that are under way; later ones get later times.
            with unit_of_work():
                list(for_update(Account.select(Account.id).where(Account.id == account_id)))
        return _read_period(account_id, from_us, to_us)


class _Parts(Iterator[bytes]):
    """The parts of a file. Closing them frees their place, also before the first part is read."""

    def __init__(self, parts: Iterator[bytes], held: ExitStack) -> None:
        self._parts = parts
        self._held = held

    def __next__(self) -> bytes:
        try:
            return next(self._parts)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._held.close()


def _file_for_people(request: GetStatement, statement: StatementStream) -> Iterator[bytes]:
    def balance(kind: str, at: datetime | None, cents: int) -> StatementLine:
        return StatementLine(iso_milliseconds(at) if at else "", kind, "", "", None, None, None, cents)

    last_at = request.to_at - timedelta(seconds=1) if request.to_at else None
    lines = chain(
        [balance("opening balance", request.from_at, statement.opening_balance_cents)],
        statement.lines,
        [balance("closing balance", last_at, statement.closing_balance_cents)],
    )
    in_kampala = (line._replace(at=_written_in_kampala(line.at)) for line in lines)
    return csv_parts((_AT_IN_KAMPALA, *COLUMNS[1:]), map(_cells, in_kampala))


def _written_in_kampala(at: str) -> str:
    return f"{datetime.fromisoformat(at).astimezone(KAMPALA):%Y-%m-%d %H:%M:%S}" if at else ""


def _cells(line: StatementLine) -> Iterator[object]:
    *texts, debit, credit, balance = line
    yield from texts
    yield from map(shillings_cell, (debit, credit, balance))


def _account_id(request: GetStatement, context: RequestContext) -> str | None:
    if request.from_at is not None and request.to_at is not None and request.to_at < request.from_at:
        raise ServiceError(Code.INVALID_REQUEST, "to: Must not be before from.")
    named = Account.select(Account.id).where(Account.client_id == context.client_id, Account.name == request.account)
    account = named.first()
    return None if account is None else str(account.id)


def _last_posted_us(account_id: str) -> int:
    last = AccountEntry.select(fn.MAX(AccountEntry.posted_us)).where(AccountEntry.account_id == account_id)
    return last.scalar() or _BEGINNING


def _read_period(account_id: str, from_us: int, to_us: int) -> _Period:
    """The period from `from_us` to before `to_us`, its bounds and both balances read in one statement."""
    last, opening = _last_before(account_id, to_us), _last_before(account_id, from_us)
    balances = Account.select(
        opening.select(AccountEntry.balance_cents),
        last.select(AccountEntry.balance_cents),
        last.select(AccountEntry.posted_us),
    )
    row: Any = balances.where(Account.id == account_id).tuples().get()
    return _Period(account_id, from_us - 1, row[2] or _BEGINNING, row[0] or 0, row[1] or 0)


def _last_before(account_id: Any, moment_us: int) -> Any:
    entries = AccountEntry.select().where(AccountEntry.account_id == account_id, AccountEntry.posted_us < moment_us)
    return entries.order_by(AccountEntry.posted_us.desc()).limit(_ONE)


def _all_lines(period: _Period) -> Iterator[StatementLine]:
    after_us = period.after_us
    while True:
        lines = list(_lines(period, after_us, _LINES_AT_ONCE))
        release_connection()
        yield from (line for _, line in lines)
        if len(lines) < _LINES_AT_ONCE:
            return
        after_us = lines[-1][0]


def _lines(period: _Period, after_us: int, limit: int) -> Iterator[tuple[int, StatementLine]]:
    """The lines of a period after `after_us`, oldest first, each with its position."""
    if after_us >= period.until_us:
        return
    rows: ModelSelect[Any] = (
        AccountEntry.select(
            AccountEntry.posted_us,
            AccountEntry.balance_cents,
            Transfer.debit_account_id,
            Transfer.amount_cents,
            Transfer.purpose,
            Transaction.id,
            Transaction.type,
            Transaction.reference,
            Transaction.description,
        )
        .join(Transfer, on=(Transfer.id == AccountEntry.transfer_id))
        .join(Transaction, on=(Transaction.id == Transfer.transaction_id))
        .where(
            AccountEntry.account_id == period.account_id,
            AccountEntry.posted_us > after_us,
            AccountEntry.posted_us <= period.until_us,
        )
        .order_by(AccountEntry.posted_us)
        .limit(limit)
        .tuples()
    )
    for posted_us, balance, debited, cents, purpose, transaction_id, kind, reference, description in rows:
        is_debit = debited == period.account_id
        yield (
            posted_us,
            StatementLine(
                at=iso_milliseconds(_EPOCH + posted_us * _MICROSECOND),
                kind=kind if purpose == AMOUNT else purpose,
                transaction_id=transaction_id,
                reference=reference,
                description=description,
                debit_cents=cents if is_debit else None,
                credit_cents=None if is_debit else cents,
                balance_cents=balance,
            ),
        )


def _microseconds(moment: datetime | None, default: int) -> int:
    return default if moment is None else max(_BEGINNING, (moment - _EPOCH) // _MICROSECOND)
