"""Lines of statements with what their movements were used for at a moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from datetime import datetime

from peewee import chunked

from ussd_server.models.movements import Movement, MovementUse
from ussd_server.models.statements import DifferenceInStatement, StatementDifference
from ussd_server.services.gates.messages import UseKind
from ussd_server.services.reconciliation.days.lines import DayLine, lines_of
from ussd_server.services.reconciliation.matching import digest_of_names
from ussd_server.services.reconciliation.messages import Verdict

HELD = "held"
_AT_ONCE = 500


class ExplainedLines:
    """The lines of some statements, as they were explained at a moment; `held_ids` are the held movements among them.

    A line whose movement a transaction used is a pair with it. Uses are rows, so that a day is proved from those that
    it was closed with.
    """

    def __init__(self, statement_ids: Collection[str], moment: datetime) -> None:
        self.held_ids = set[str]()
        self._statement_ids, self._moment = statement_ids, moment
        self._movements = _movements_of(statement_ids)
        self._uses = _uses_of(set(self._movements.values()), moment)

    def of_days(self, days: Collection[str]) -> Iterator[DayLine]:
        """Yield the lines of these days, each receipt once."""
        return map(self._explained, lines_of(self._statement_ids, days))

    def _explained(self, line: DayLine) -> DayLine:
        movement_id = self._movements.get(line.receipt) if line.is_difference else None
        if movement_id is None:
            return line
        kind, transaction_id = self._uses.get(movement_id, (None, None))
        if transaction_id is not None:
            verdict = Verdict.REVERSAL if line.verdict == Verdict.REVERSAL else Verdict.MATCHED
            return line._replace(transaction_id=transaction_id, verdict=verdict, is_difference=False)
        if kind is None:
            self.held_ids.add(movement_id)
            if line.verdict != Verdict.AMOUNT_DIFFERS:
                return line._replace(verdict=HELD)
        return line


def _movements_of(statement_ids: Collection[str]) -> dict[bytes, str]:
    """The movements of the lines of some statements that moved money, by the digests of the lines."""
    rows = (
        StatementDifference.select()
        .join(DifferenceInStatement, on=(DifferenceInStatement.difference_id == StatementDifference.id))
        .where(DifferenceInStatement.statement_id.in_(list(statement_ids)))
        .where(StatementDifference.movement_id.is_null(False))
    )
    return {
        bytes.fromhex(
            digest_of_names(
                "reversal" if row.verdict == Verdict.REVERSAL else "payment",
                row.provider_id,
                row.reference,
                row.dated,
                row.party,
            )
        ): row.movement_id
        for row in rows
    }


def _uses_of(movement_ids: Collection[str], moment: datetime) -> dict[str, tuple[str | None, str | None]]:
    """What movements were used for at a moment: the kind and the transaction, of those that had a use."""
    names = {each: {each} for each in movement_ids}
    uses: dict[str, tuple[str | None, str | None]] = {}
    while names:
        # What had proved to be another movement is used by what uses that one.
        following = defaultdict[str, set[str]](set)
        for some in chunked(list(names), _AT_ONCE):
            for use in MovementUse.select().where(MovementUse.movement_id.in_(some)).order_by(MovementUse.number):
                is_use = use.kind != UseKind.RELEASE
                if use.created_at <= moment:
                    last = (use.kind, use.transaction_id) if is_use else (None, None)
                    uses |= dict.fromkeys(names[use.movement_id], last)
            merged = Movement.select().where(
                Movement.id.in_(some), Movement.same_as.is_null(False), Movement.updated_at <= moment
            )
            for row in merged:
                following[row.same_as] |= names[row.id]
        names = following
    return uses
