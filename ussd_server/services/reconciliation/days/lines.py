"""Packs the lines of statements by day: what is enough to compute a day again, in some 30 bytes for each line."""

from __future__ import annotations

import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from struct import Struct
from typing import NamedTuple

import orjson

from ussd_server.models.statements import ProviderStatement, StatementDay, StatementState
from ussd_server.services.reconciliation.messages import Verdict
from ussd_server.values import days_about, kampala_day

# Receipt, transaction (zeros for none), cents, seconds since 1970, verdict.
_FORM = Struct("<16s16sqIB")
_LINES_IN_PART = 20_000
_DIFFERS = 0x80
_VERDICTS = (
    Verdict.MATCHED, Verdict.AMOUNT_DIFFERS, Verdict.STATUS_DIFFERS, Verdict.NOT_OURS, Verdict.NOT_THEIRS,
    Verdict.REVERSAL, Verdict.FEE,
)  # fmt: skip
"""Their places are stored, so the order stays."""
_PAIRED = (Verdict.MATCHED, Verdict.AMOUNT_DIFFERS, Verdict.STATUS_DIFFERS)
_NO_TRANSACTION = bytes(16)


class DayLine(NamedTuple):
    """What is kept of a line.

    `receipt` is a digest of the line's names and kind. `cents` is what the line moved, positive for money to us, 0 for
    a line that moved nothing and for a fee. `transaction_id` is our transaction, empty for none. `verdict` is a
    `Verdict`; when a day is added up, `held` for what has no use.
    """

    receipt: bytes
    transaction_id: str
    cents: int
    at: datetime
    verdict: str
    is_difference: bool

    @property
    def is_pair(self) -> bool:
        """Whether the line is about its transaction, and not a fee for it or a second payment under its name."""
        return self.verdict in _PAIRED or (self.verdict is Verdict.REVERSAL and not self.is_difference)

    def written(self) -> bytes:
        """The line as bytes that a digest covers."""
        return orjson.dumps((self.receipt.hex(), *self[1:]))


class PackedDays:
    """Lines of one statement, packed by day as they come."""

    def __init__(self) -> None:
        self._parts: list[tuple[str, int, bytes]] = []
        self._open: dict[str, bytearray] = defaultdict(bytearray)

    def append(self, line: DayLine) -> None:
        day = kampala_day(line.at)
        lines = self._open[day]
        lines += _FORM.pack(
            line.receipt,
            bytes.fromhex(line.transaction_id.replace("-", "")) or _NO_TRANSACTION,
            line.cents,
            int(line.at.timestamp()),
            _VERDICTS.index(Verdict(line.verdict)) | (_DIFFERS if line.is_difference else 0),
        )
        if len(lines) >= _LINES_IN_PART * _FORM.size:
            self._pack(day)

    def parts(self) -> list[tuple[str, int, bytes]]:
        """The day, the number of lines and the packed lines of each part. No line can be added afterwards."""
        for day in list(self._open):
            self._pack(day)
        return self._parts

    def _pack(self, day: str) -> None:
        lines = self._open.pop(day)
        self._parts.append((day, len(lines) // _FORM.size, zlib.compress(lines, 1)))


def lines_of(statement_ids: Collection[str], days: Collection[str]) -> Iterator[DayLine]:
    """Yield the lines of these days of several statements, each receipt once, as the newest statement has it.

    A receipt that one statement has several times counts as often as the statement that has it most often.
    """
    seen: set[tuple[bytes, int]] = set()
    for statement_id in sorted(statement_ids, reverse=True):
        counts: Counter[bytes] = Counter()
        for line in _lines_of_one(statement_id, days):
            counts[line.receipt] += 1
            key = line.receipt, counts[line.receipt]
            if key not in seen:
                seen.add(key)
                yield line


def statements_with(
    transaction_id: str, account: str, cents: int, begin: datetime, end: datetime
) -> Iterator[ProviderStatement]:
    """The stored statements with a line of a transaction, of its amount, at about that time; the newest first."""
    for statement, lines in _stored_lines(account, days_about(begin, end)):
        if any(each.transaction_id == transaction_id and each.is_pair and abs(each.cents) == cents for each in lines):
            yield statement


def pairs_told(account: str, days: Collection[str]) -> Iterator[tuple[str, bytes, datetime]]:
    """The payments of ours of which stored statements tell on some days: each with its line's digest and moment."""
    for _, lines in _stored_lines(account, days):
        yield from ((each.transaction_id, each.receipt, each.at) for each in lines if each.is_pair and each.cents)


def _stored_lines(account: str, days: Collection[str]) -> Iterator[tuple[ProviderStatement, Iterator[DayLine]]]:
    """The stored statements with lines on some days, the newest first, and these lines."""
    with_lines = StatementDay.select(StatementDay.statement_id).where(StatementDay.day.in_(list(days)))
    stored = ProviderStatement.select().where(
        ProviderStatement.account == account,
        ProviderStatement.state == StatementState.STORED,
        ProviderStatement.id.in_(with_lines),
    )
    for statement in stored.order_by(ProviderStatement.id.desc()):
        yield statement, lines_of([statement.id], days)


def _lines_of_one(statement_id: str, days: Collection[str]) -> Iterator[DayLine]:
    chosen = (StatementDay.statement_id == statement_id) & StatementDay.day.in_(list(days))
    for part_id in [row.id for row in StatementDay.select(StatementDay.id).where(chosen).order_by(StatementDay.id)]:
        packed = StatementDay.get_by_id(part_id).lines
        yield from map(_line_of, _FORM.iter_unpack(zlib.decompress(packed)))


def _line_of(values: tuple[bytes, bytes, int, int, int]) -> DayLine:
    receipt, transaction, cents, seconds, verdict = values
    name = transaction.hex()
    return DayLine(
        receipt,
        "" if transaction == _NO_TRANSACTION else "-".join((name[:8], name[8:12], name[12:16], name[16:20], name[20:])),
        cents,
        datetime.fromtimestamp(seconds, UTC),
        _VERDICTS[verdict & ~_DIFFERS],
        bool(verdict & _DIFFERS),
    )
