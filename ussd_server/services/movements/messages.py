"""Messages of movements."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated

from ussd_server.services.gates.messages import UseKind, WayIn
from ussd_server.services.transactions.messages import MAIN_ACCOUNT, Effect
from ussd_server.wire import Cents, Internal, Key, ListPage


@dataclass(frozen=True, slots=True)
class ListMovements(ListPage):
    """`is_held`: only those without a use, or to be given back.

    `account` is the one at which they moved, `day` the day in Kampala; None sets no bound.
    """

    is_held: bool = False
    account: str | None = None
    day: date | None = None


@dataclass(frozen=True, slots=True)
class Telling:
    way: Annotated[WayIn, "The way in which it was told."]
    at: Annotated[datetime, "When it was told in this way first."]


@dataclass(frozen=True, slots=True)
class Beside:
    """What may be the same money: a movement, or a transaction that is its own movement."""

    movement_id: Annotated[str | None, "The movement; null for a transaction."]
    transaction_id: Annotated[str | None, "The transaction; null for a movement."]


@dataclass(frozen=True, slots=True)
class StatementPlace:
    """The line of a statement that told of a movement first."""

    statement_id: Annotated[str, "The statement."]
    file_name: Annotated[str, "Its file."]
    line: Annotated[int | None, "The line in it."]
    difference_id: Internal[str]


@dataclass(frozen=True, slots=True)
class MovementUseView:
    kind: Annotated[UseKind, "What it is used for."]
    transaction_id: Annotated[str | None, "The transaction that uses it; null for none."]
    other_id: Annotated[str | None, "The movement that it gives back, or proved to be; null for none."]
    by: Annotated[str | None, "The operator who decided; null where the service did."]
    and_: Annotated[str | None, "The second operator; null where the service decided."]
    reason: Annotated[str | None, "Why; null for none."]
    at: Annotated[datetime, "Since when."]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovementView:
    """A movement as operators see it. `suggestions` are up to three payment codes that its payer probably meant."""

    movement_id: Annotated[str, "The movement."]
    account: Annotated[str, "The account at a provider at which it moved, or `bank`.", Key("provider")]
    direction: Annotated[str, "`in` or `out`."]
    amount_cents: Annotated[Cents, "Shillings."]
    at: Annotated[datetime | None, "When it moved; null where nobody said so."]
    phone_number: Annotated[str | None, "The other side's number; null where it is not known."]
    name: Annotated[str | None, "The other side's name, where the provider said it."] = None
    reference: Annotated[str | None, "Our own name for it at the provider; null where no payment of ours uses it."]
    code: Annotated[str | None, "What a payer typed; null for nothing."] = None
    receipts: Annotated[tuple[str, ...], "Its receipts, as they were written first."]
    told: Annotated[tuple[Telling, ...], "Who told of it, the first first."]
    line: Annotated[StatementPlace | None, "The line of a statement that told of it; null for none."] = None
    other_amount_cents: Annotated[Cents | None, "Another amount that it was told with; null for none."] = None
    held_because: Annotated[str | None, "Why it has no use; null where it has one."] = None
    waits_for: Annotated[str | None, "Our payment that decides about it once it is final; null for none."] = None
    beside: Annotated[tuple[Beside, ...], "What may be the same money."] = ()
    suggestions: Annotated[tuple[str, ...], "Up to three codes that the payer may have meant."] = ()
    state: Annotated[str, "`held`, `same`, `to be given back`, or the kind of its use."]
    use: Annotated[MovementUseView | None, "What it is used for; null while it is held."]
    counterpart: Annotated[str | None, "The movement that gives it back, or that it gives back; null for none."] = None
    same_as: Annotated[str | None, "The movement that it proved to be; null for none."] = None
    created_at: Annotated[datetime, "When it was told here first."]


@dataclass(frozen=True, slots=True, kw_only=True)
class MovementHistory(MovementView):
    """A movement with all of its uses and releases, the oldest first, and those that may give it back."""

    history: tuple[MovementUseView, ...]
    may_give_back: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeldLikeOwn:
    """A held movement as a client sees it whose codes it resembles: not the payer, because it may be another client's.

    `meant` are the client's codes that differ by one slip.
    """

    provider: str
    receipt: str
    amount_cents: int
    code: str
    created_at: datetime
    meant: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AssignMovement:
    """Request of two operators to book a held movement under a payment code."""

    movement_id: str
    code: str
    by: str
    second: str


@dataclass(frozen=True, slots=True)
class SameMovement:
    """Request of two operators who say that a held movement is money that is known already.

    `other_id` is the other movement, or the payment of ours that is its own; None for the one payment beside it.
    """

    movement_id: str
    by: str
    second: str
    other_id: str | None = None


@dataclass(frozen=True, slots=True)
class EndMovement:
    """Request of two operators to mark a held movement for return or as the operator's own, or to take a use back.

    `reason` has 1 to 200 characters. `other_id` is the movement that gives a returned one back, None for none yet.
    """

    movement_id: str
    reason: str
    by: str
    second: str
    other_id: str | None = None


@dataclass(frozen=True, slots=True)
class UndonePayment:
    """Request of two operators to take a payment that never moved, or a deposit, out of the books.

    `reason` has 1 to 200 characters.
    """

    transaction_id: str
    reason: str
    by: str
    second: str


@dataclass(frozen=True, slots=True)
class CorrectMovement:
    """Request of two operators to book a held movement as a correction of a client's account.

    `payment` is the transaction that it corrects, None for the one that the movement's receipt or line names.
    `account` is `main` or a subscriber's number, None for that of the payment, or `main`. `reason` has 1 to 200
    characters.
    """

    movement_id: str
    client_id: str
    reason: str
    by: str
    second: str
    account: str | None = None
    payment: str | None = None


@dataclass(frozen=True, slots=True)
class CorrectionPreview:
    """What a correction would do: `payment_after` is the status that the payment gets, None where it keeps its own."""

    movement: MovementView
    effect: Effect
    account: str
    client: str
    payment_id: str | None
    payment_after: str | None


@dataclass(frozen=True, slots=True)
class FillShortfall:
    """Request of two operators to fill a client's shortfall from its account; `reason` has 1 to 200 characters."""

    client_id: str
    reason: str
    by: str
    second: str
    account: str = MAIN_ACCOUNT
