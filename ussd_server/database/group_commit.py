"""Group commit: simultaneous requests share one database transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from peewee import OperationalError

from ussd_server.batches import Batches, BatchLostError, Item
from ussd_server.database.unit_of_work import DATABASE_TROUBLE, dialect


class GroupCommit(Batches[Item]):
    """Batches of items for the database."""

    def __init__(self, ask: Callable[[Sequence[Item]], None], most: int = 64) -> None:
        """`ask` processes all items in one transaction, or none, and stores the results in the items."""
        super().__init__(ask, most, _was_undone)

    def do(self, item: Item) -> Sequence[Item]:
        """As `Batches.do`. Raises OperationalError when it is unknown whether the item was committed."""
        try:
            return super().do(item)
        except BatchLostError:
            raise OperationalError("the database failed while it worked on a batch") from None


def _was_undone(error: Exception) -> bool:
    return not isinstance(error, DATABASE_TROUBLE) or dialect().was_rolled_back(error)
