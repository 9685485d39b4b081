"""Lines of statements with what their movements were used for at a moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import datetime

from peewee import chunked

from ussd_server.models.movements import MovementUse
from ussd_server.models.statements import DifferenceInStatement, StatementDifference
from ussd_server.services.gates.messages import UseKind
from ussd_server.services.reconciliation.comparing.matches import digest_of_names
from ussd_server.services.reconciliation.days.lines import DayLine, lines_of
from ussd_server.services.reconciliation.messages import Verdict

HELD = "held"
_AT_ONCE = 500


class ExplainedLines:
    """The lines of some statements, as they were explained at a moment.

    A line whose movement a transaction used is a pair with it. Uses are rows, so that a day is proved from those that
    it was closed with.
    """

    def __init__(self, statement_ids: Collection[str], moment: datetime) -> None:
        self._statement_ids = statement_ids
        moved = _that_moved(statement_ids)
        self._movements = {key: row.movement_id for row in moved for key in _keys_of(row)}
        self._uses = _uses_of({row.movement_id for row in moved}, moment)

    def of_days(self, days: Collection[str]) -> Iterator[DayLine]:
        """Yield the lines of these days, each receipt once."""
        return map(self._explained, lines_of(self._statement_ids, days))

    def is_held(self, movement_id: str) -> bool:
        """Whether the movement of a line, be it also of one that a newer statement has otherwise, had no use."""
        return self._uses.get(movement_id, (None, None))[0] is None

    def _explained(self, line: DayLine) -> DayLine:
        movement_id = self._movements.get((line.receipt, line.cents)) if line.is_difference else None
        if movement_id is None:
            return line
        kind, transaction_id = self._uses.get(movement_id, (None, None))
        if transaction_id is not None:
            verdict = Verdict.REVERSAL if line.verdict == Verdict.REVERSAL else Verdict.MATCHED
            return line._replace(transaction_id=transaction_id, verdict=verdict, is_difference=False)
        if kind is None and line.verdict != Verdict.AMOUNT_DIFFERS:
            return line._replace(verdict=HELD)
        return line


def _that_moved(statement_ids: Collection[str]) -> list[StatementDifference]:
    """The differences of some statements that have a movement, those of the newest statement last."""
    return list(
        StatementDifference.select()
        .join(DifferenceInStatement, on=(DifferenceInStatement.difference_id == StatementDifference.id))
        .where(DifferenceInStatement.statement_id.in_(list(statement_ids)))
        .where(StatementDifference.movement_id.is_null(False))
        .order_by(DifferenceInStatement.id)
    )


def _keys_of(row: StatementDifference) -> Iterator[tuple[bytes, int]]:
    """The digests that the line of a difference can have, whose kind is not kept, with what it moved."""
    for kind in ("payment", "reversal"):
        digest = digest_of_names(kind, row.provider_id, row.reference, row.dated, row.party)
        yield bytes.fromhex(digest), row.moved_cents


def _uses_of(movement_ids: Collection[str], moment: datetime) -> dict[str, tuple[str | None, str | None]]:
    """What movements were used for at a moment: the kind and the transaction, of those that had a use."""
    names = {each: {each} for each in movement_ids}
    uses: dict[str, tuple[str | None, str | None]] = {}
    while names:
        last = dict[str, MovementUse]()
        for some in chunked(list(names), _AT_ONCE):
            until = MovementUse.select().where(MovementUse.movement_id.in_(some), MovementUse.created_at <= moment)
            last |= {use.movement_id: use for use in until.order_by(MovementUse.number)}
        # What had proved to be another movement is used by what uses that one.
        following = defaultdict[str, set[str]](set)
        for key, use in last.items():
            if use.kind == UseKind.SAME:
                following[use.other_id] |= names[key]
            else:
                is_use = use.kind != UseKind.RELEASE
                uses |= dict.fromkeys(names[key], (use.kind, use.transaction_id) if is_use else (None, None))
        names = following
    return uses
