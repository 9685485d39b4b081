"""Money that moved outside once: what was told of it, its receipts, and what it is used for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from peewee import JOIN, SQL, IntegerField, TextField, fn

from ussd_server.database.tables import CentsField, IdField, JsonField, MomentField, Table, fixed

IN, OUT = "in", "out"
"""The directions of a movement: into the account at the provider or the bank, or out of it."""
TO_BE_GIVEN_BACK = "to be given back"
"""The state of a returned movement that nothing has given back yet."""


class Movement(Table):
    """Money that moved at a provider or the bank and that something else than our own payment told us of.

    A payment of ours that succeeded is its own movement and has no row here, unless its money was told before.
    `account` is the provider's name, or `bank`. `at` is when it moved, as it was told. `receipt` is the one under which
    it was told first, None for none. `code` is what a payer typed. `told` has each way that told of it, with the moment
    of the first time; none where the import of its statement was undone. `other_amount_cents` is another amount that it
    was told with. `held_because` says why it has no use; `waits_for` is the payment of ours that decides about it once
    it is final, and `beside` are the transactions and movements that may be the same money.

    The database writes the rest from the last rows of `MovementUse`; all of it is None while it is held. `counterpart`
    gives a returned movement back, or is given back by it. `same_as` is the movement that it proved to be; it counts
    nowhere then.
    """

    id = fixed(IdField(primary_key=True))
    account = fixed(TextField())
    direction = fixed(TextField())
    amount_cents = fixed(CentsField())
    at = MomentField(null=True)
    receipt = fixed(TextField(null=True))
    code = TextField(null=True)
    phone_number = TextField(null=True)
    name = TextField(null=True)
    told = JsonField()
    other_amount_cents = CentsField(null=True)
    held_because = TextField(null=True)
    waits_for = IdField(null=True)
    beside = JsonField()
    same_as = IdField(null=True)
    use_kind = TextField(null=True)
    transaction_id = IdField(null=True)
    counterpart = IdField(null=True)
    created_at = fixed(MomentField())
    updated_at = MomentField()

    class Meta:
        only_save_dirty = True

    @property
    def state(self) -> str:
        """`held`, `same`, `to be given back`, or the kind of its use."""
        if self.use_kind is None:
            return "held" if self.same_as is None else "same"
        return TO_BE_GIVEN_BACK if self.use_kind == "returned" and self.counterpart is None else str(self.use_kind)


class MovementReceipt(Table):
    """A receipt of a provider, or a reference of the bank: it is money once.

    `receipt` is in the form of `canonical_receipt`, `written` as it came first. It belongs to a payment of ours that
    is its own movement, or to a row of `Movement`; to neither only while its unit of work has not ended.
    """

    account = fixed(TextField())
    direction = fixed(TextField())
    receipt = fixed(TextField())
    written = fixed(TextField())
    transaction_id = IdField(null=True)
    movement_id = IdField(null=True)

    class Meta:
        primary_key = False


class MovementUse(Table):
    """What a movement is used for from a moment on, or its release. Never edited.

    `number` counts those of a movement from 1. `kind` is a `UseKind`. `transaction_id` is the payment or the correction
    that uses it, `other_id` the movement that it gives back or proved to be. `decided_by` are the operators who said
    so, None where the service decided.
    """

    id = IdField(primary_key=True)
    movement_id = IdField()
    number = IntegerField()
    kind = TextField()
    transaction_id = IdField(null=True)
    other_id = IdField(null=True)
    decided_by = TextField(null=True)
    reason = TextField(null=True)
    created_at = MomentField()


def users_of_receipts(receipts: Collection[str], account: str | None = None) -> Any:
    """A query for the transactions that have the money of receipts, in the form in which they are compared.

    Each row is the transaction and the receipt. Without `account` at all of them.
    """
    used_by = fn.COALESCE(MovementReceipt.transaction_id, Movement.transaction_id)
    return (
        MovementReceipt.select(used_by, MovementReceipt.receipt)
        .join(Movement, JOIN.LEFT_OUTER, on=(Movement.id == MovementReceipt.movement_id))
        .where(
            True if account is None else MovementReceipt.account == account,
            MovementReceipt.receipt.in_(list(receipts)),
            used_by.is_null(False),
        )
    )


def counts() -> Any:
    """The condition on `Movement` that something tells of it, and that it is not the same as another one."""
    return Movement.same_as.is_null() & (Movement.told != SQL("'[]'"))


def is_unexplained() -> Any:
    """The condition on `Movement` that it has no use, or is to be given back."""
    return SQL("(use_kind IS NULL OR use_kind = 'returned')") & Movement.counterpart.is_null() & counts()


def is_held() -> Any:
    """The condition on `Movement` that it has no use."""
    return Movement.use_kind.is_null() & is_unexplained()
