"""Messages of the gates: the ways in which money leaves and is told, who sends it, and what it is used for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, StrEnum

from ussd_server.context import APPROVE, SEND, RequestContext
from ussd_server.services.transactions.messages import PayingMenu, TransactionType

MONEY_OUT = (
    TransactionType.DISBURSEMENT,
    TransactionType.TRANSFER,
    TransactionType.REFUND,
    TransactionType.SETTLEMENT,
)
"""The types of transactions that take money from a client."""


class WayOut(Enum):
    """Every way in which money leaves a client. The value is what its caller must hold, None where operators decide."""

    PAYMENT = ("payment", SEND)
    REFUND = ("refund", SEND)
    MENU = ("menu", SEND)  # a key in whose conversation the menu pays, and the publisher of the menu
    PAYOUT = ("payout", APPROVE)
    DATED_PAYOUT = ("dated payout", APPROVE)
    OPERATOR_REFUND = ("refund by operators", None)
    SETTLEMENT = ("settlement to the bank", None)
    RECOVERY = ("payment that a provider has made already", None)

    def __init__(self, title: str, needs: str | None) -> None:
        self.title, self.needs = title, needs


@dataclass(frozen=True, slots=True)
class Sending:
    """Money that a caller is about to send."""

    way: WayOut
    context: RequestContext
    menu: PayingMenu | None = None


class WayIn(StrEnum):
    """A way in which money that moved outside is told. `tests/gates` tries each pair of them with one receipt."""

    ENQUIRY = "enquiry"
    CALLBACK = "callback"
    REVIEW = "review"
    STATEMENT = "statement"
    NOTICE = "notice"
    ASSIGNMENT = "assignment"
    SAME_PAYMENT = "same payment"
    RECOVERY = "recovery"
    SETTLEMENT = "settlement"


@dataclass(frozen=True, slots=True)
class Told:
    """What a way tells of money that moved, other than of a payment of ours.

    `at` is when it moved, None where the way does not say. `receipt` is as it was written, empty for none.
    """

    way: WayIn
    account: str
    direction: str
    amount_cents: int
    receipt: str
    phone_number: str | None = None
    at: datetime | None = None


class UseKind(StrEnum):
    """What a movement is used for; the values are stored. A release ends the use before it."""

    PAYMENT = "payment"
    CORRECTION = "correction"
    RETURNED = "returned"
    OWN = "own"
    SAME = "same"
    RELEASE = "release"
