"""The gate for money that leaves: checked when a payment is created, and again before it is sent.

It refuses while the operator holds all money, and for a disabled client, a key that was deleted or disabled, has
expired or lost its scope, a person who was disabled or lost the right, and a menu whose publisher was revoked.
Authentication has just checked key, person and client of an API call, so creating its payment reads nothing. Before it
is sent, one query reads them again. The database enforces daily limits when payments are created (`keys_spend`); the
gate stops what a limit that was lowered since no longer allows.
What blocks a payment is one ordered list, `_blocks`: client, key and person, then the daily limit and the publisher of
a menu; for a row of a payout the payout, the limit of its key, and the other attempts to pay the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, datetime
from typing import Any

from peewee import JOIN, fn

from ussd_server.context import SEND, CallerKind, RequestContext
from ussd_server.database.tables import CompiledQuery, param
from ussd_server.models.clients import Client, User, is_client_active
from ussd_server.models.keys import ApiKey, KeySpending
from ussd_server.models.payouts import Payout, PayoutAttempt, PayoutHold
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import MenuVersion
from ussd_server.services.clients.keys.messages import expanded
from ussd_server.services.gates.messages import MONEY_OUT, Sending, WayOut
from ussd_server.services.payouts.messages import PayoutStatus
from ussd_server.services.roles import may_in_console
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import PayingMenu, TransactionStatus, TransactionType
from ussd_server.status import Code, ServiceError
from ussd_server.values import bounds_of_day, grouped, kampala_day, new_id_floor

_CLIENT_DISABLED = "The client is disabled"


class SendingGate:
    """Decides whether money may leave. One for all ways out (`WayOut`)."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock
        self.is_held = runtime.settings.hold_money

    def require_open(self) -> None:
        """Raise SERVICE_UNAVAILABLE while the operator holds new money (`USSD_HOLD_MONEY`)."""
        if self.is_held:
            raise ServiceError(
                Code.SERVICE_UNAVAILABLE,
                "No payment is created while the operator restores the service; nothing was recorded, retry later",
                retry_after_seconds=60,
            )

    def admit(self, way: WayOut, context: RequestContext, menu: PayingMenu | None = None) -> Sending:
        """Return what the caller is about to send. INSUFFICIENT_SCOPE unless the caller holds what the way needs."""
        if way.needs is not None:
            context.require(way.needs)
        return Sending(way, context, menu)

    def require_allowed(self, sending: Sending) -> None:
        """Raise INVALID_REQUEST for a disabled client, INSUFFICIENT_SCOPE for a menu whose publisher was revoked.

        Reads nothing where authentication has proved the client and the caller.
        """
        context = sending.context
        if sending.way is WayOut.MENU:
            assert sending.menu is not None, "a menu's payment names its version"
            fault = self.fault_of_publisher(context.client_id, sending.menu)
            if fault is not None:
                raise ServiceError(Code.INSUFFICIENT_SCOPE, f"The menu sends no money: {fault}")
        elif sending.way is WayOut.RECOVERY:
            # The money has left already, and is only booked.
            return
        elif context.caller.kind is CallerKind.OPERATOR and not is_client_active(context.client_id):
            raise ServiceError(Code.INVALID_REQUEST, _CLIENT_DISABLED)

    def require_publishable(self, node: str, context: RequestContext) -> None:
        """Raise INSUFFICIENT_SCOPE where the caller may not let a menu send money, as `node` of the menu does.

        That is without `transactions:send`, and with a key that has a daily limit: subscribers would pay beyond it.
        """
        context.require(SEND, f"The node {node} sends money: that needs the scope {SEND}")
        key_id = context.caller.key_id
        if key_id is not None and ApiKey.select().where(ApiKey.id == key_id, _HAS_LIMIT).exists():
            raise ServiceError(
                Code.INSUFFICIENT_SCOPE, f"The node {node} sends money: a key with a daily_limit cannot let menus pay"
            )

    def require_due(self, payout: Payout) -> None:
        """Check a dated payout when it is due, before its money is reserved.

        Raises SERVICE_UNAVAILABLE while money is held and while the client is disabled: the payout waits. Raises
        INVALID_REQUEST when the key or person that approved it was revoked.
        """
        self.require_open()
        if not is_client_active(payout.client_id):
            raise ServiceError(Code.SERVICE_UNAVAILABLE, _CLIENT_DISABLED)
        sender = _Sender(payout.client_id, payout.key_id, person_of(payout))
        fault = sender.fault(WayOut.DATED_PAYOUT.needs, self._clock.now(), "approved the payout")
        if fault is not None:
            raise ServiceError(Code.INVALID_REQUEST, fault)

    def fault_of(self, row: Transaction) -> str | None:
        """Why a payment may not be sent, or sent again, as a sentence without a full stop; None where it may.

        Call before the first byte is sent, with the row locked. Collections always may: they bring money. Costs one
        query, one more for a row of a payout, and two more for a payment by a menu; one or two more where the key has a
        daily limit.
        """
        return next(filter(None, self._blocks(row)), None) if row.type in MONEY_OUT else None

    def _blocks(self, row: Transaction) -> Iterator[str | None]:
        """What may block a payment, in the order in which it is asked: a sentence each, None where it does not."""
        way = _way_of(row)
        verb = "approved the payout" if way is WayOut.PAYOUT else "requested the payment"
        sender = _Sender(row.client_id, row.key_id, row.user_id, kampala_day(row.created_at))
        yield sender.fault(way.needs, self._clock.now(), verb)
        if way is WayOut.PAYOUT:
            yield from _blocks_of_attempt(row)
        elif sender.is_over_limit and _is_over_limit(row, sender.limit_cents or 0):
            yield f"The daily limit of the API key that {verb} was lowered"
        if way is WayOut.MENU:
            assert row.menu_id is not None
            assert row.menu_version is not None
            yield self.fault_of_publisher(row.client_id, PayingMenu(row.menu_id, row.menu_version))

    def fault_of_publisher(self, client_id: str, menu: PayingMenu) -> str | None:
        """Why a version of a menu may send no money; None where it may.

        The publisher's key may have expired, because an expiry is known beforehand and revokes nothing. It may not have
        got a daily limit: subscribers would pay beyond it.
        """
        (version,) = _PUBLISHED.rows(MenuVersion, menu_id=menu.menu_id, version=menu.version)
        sender = _Sender(client_id, version.key_id, version.user_id)
        fault = sender.fault(SEND, None, "published the menu")
        if fault is None and sender.limit_cents is not None:
            return "The API key that published the menu has a daily limit now"
        return fault


def person_of(payout: Payout) -> str | None:
    """The person who approved a payout; None for a key and for operators."""
    if payout.key_id is not None or payout.approved_by is None:
        return None
    # For operators this id is made of their names, and no user has it.
    user_id: str | None = User.select(User.id).where(User.id == payout.approved_by).scalar()
    return user_id


def limiting_key(key_ids: Iterable[str | None]) -> tuple[str | None, int | None]:
    """The key with the lowest daily limit, and the limit in cents, of those that approved a payout.

    Without any limit: the last key, and None. In `key_ids`, None is an approver without a key.
    """
    approved = [each for each in key_ids if each is not None]
    limited = ApiKey.select(ApiKey.id, ApiKey.daily_limit_cents).where(ApiKey.id.in_(approved), _HAS_LIMIT)
    lowest = limited.order_by(ApiKey.daily_limit_cents, ApiKey.id).first()
    return (lowest.id, lowest.daily_limit_cents) if lowest else (approved[-1] if approved else None, None)


def lowered_limit(payout: Payout) -> str | None:
    """Why a payout whose money is reserved may not be paid: its key's limit was lowered since. None while it may."""
    key = ApiKey.get_or_none(ApiKey.id == payout.counted_key_id, _HAS_LIMIT) if payout.counted_key_id else None
    if key is None or payout.reserved_at is None or _paid_cents(key.id, payout.reserved_at) <= key.daily_limit_cents:
        return None
    return f"The daily limit of the API key {key.name or key.apikey} is UGX {grouped(key.daily_limit_cents)} now."


def _blocks_of_attempt(row: Transaction) -> Iterator[str | None]:
    """What may block an attempt to pay a row of a payout: its payout, the limit of its key, or another attempt."""
    payout = Payout.get_by_id(row.payout_id)
    yield "The payout was cancelled" if payout.status == PayoutStatus.CANCELLED else None
    yield lowered_limit(payout)
    others = other_attempts(row)
    may_pay = any(other.status != TransactionStatus.FAILED or other.is_in_review for other in others)
    if may_pay or corrected_ids(other.id for other in others):
        yield "Another attempt has paid the row, or may still pay it"


def other_attempts(row: Transaction) -> list[Transaction]:
    """The other attempts to pay the row of a payout: their statuses, names at the provider and reviews."""
    return list(_OTHER_ATTEMPTS.rows(Transaction, transaction_id=row.id))


def has_correction() -> Any:
    """The condition on `Transaction` that operators booked what moved of it as a correction, which stands."""
    correction = Transaction.alias()
    is_its = (correction.corrects == Transaction.id) & (correction.status != TransactionStatus.REVERSED)
    return fn.EXISTS(correction.select(correction.id).where(is_its))


def corrected_ids(transaction_ids: Iterable[str]) -> set[str]:
    """Those of some payments that a correction stands for."""
    rows = Transaction.select(Transaction.id).where(Transaction.id.in_(list(transaction_ids)), has_correction())
    return {row.id for row in rows}


def _is_over_limit(row: Transaction, limit_cents: int) -> bool:
    """Whether a payment is beyond the daily limit of its key, after those that were created before it that day."""
    return _paid_cents(row.key_id, row.created_at, Transaction.id <= row.id) > limit_cents


def _paid_cents(key_id: str, moment: datetime, *conditions: Any) -> int:
    """What counts for a key's daily limit on the day of a moment in Kampala, without what failed, in cents."""
    day = kampala_day(moment)
    begin, end = bounds_of_day(date.fromisoformat(day))
    costs = fn.SUM(Transaction.amount_cents + Transaction.fee_cents)
    paid = Transaction.select(costs).where(
        Transaction.key_id == key_id,
        Transaction.id >= new_id_floor(begin),
        Transaction.id < new_id_floor(end),
        Transaction.type.in_((TransactionType.DISBURSEMENT, TransactionType.REFUND)),
        Transaction.status != TransactionStatus.FAILED,
        Transaction.payout_id.is_null(),
        *conditions,
    )
    of_key = (PayoutHold.key_id == key_id) & (PayoutHold.day == day)
    held = PayoutHold.select(fn.SUM(PayoutHold.reserved_cents - PayoutHold.released_cents)).where(of_key)
    is_of_hold = (PayoutHold.payout_id == PayoutAttempt.payout_id) & (PayoutHold.round == PayoutAttempt.round)
    failed = (
        Transaction.select(costs)
        .join(PayoutAttempt, on=(PayoutAttempt.transaction_id == Transaction.id))
        .join(PayoutHold, on=is_of_hold)
        .where(of_key, PayoutHold.reserved_cents > PayoutHold.released_cents)
        # What was never sent is released already.
        .where(Transaction.status == TransactionStatus.FAILED, Transaction.ask_attempts > 0)
    )
    return int(paid.scalar() or 0) + int(held.scalar() or 0) - int(failed.scalar() or 0)


class _Sender:
    """A client with the key or the person that sends its money, as the database has them now; neither for operators.

    Both where a person approves what a key with a daily limit approved before.
    """

    def __init__(self, client_id: str, key_id: str | None, user_id: str | None, day: str | None = None) -> None:
        """Read a sender, in one query, with what was counted for its key on a day; failed payments still count."""
        self._has_key, self._has_person = key_id is not None, user_id is not None
        # The row of the key, with the columns of the others beside it; without an id where the key was deleted.
        self._row = _SENDER.first(ApiKey, client_id=client_id, key_id=key_id, user_id=user_id, day=day)
        self.limit_cents: int | None = self._row.daily_limit_cents

    @property
    def is_over_limit(self) -> bool:
        """Whether more was counted than the daily limit of the key is now."""
        return self.limit_cents is not None and (self._row.spent_cents or 0) > self.limit_cents

    def fault(self, needs: str | None, now: datetime | None, verb: str) -> str | None:
        """Why the sender may not send, as a sentence without a full stop; `verb` is what it did. None where it may.

        Without `now`, a key does not expire.
        """
        if not self._row.is_client_active:
            return _CLIENT_DISABLED
        if self._has_key and (fault := fault_of_key(self._row, needs, now)):
            return f"The API key that {verb} {fault}"
        if self._has_person and (fault := fault_of_person(self._row.is_person_active, self._row.role, needs)):
            return f"The person who {verb} {fault}"
        return None


def fault_of_key(key: ApiKey, needs: str | None, now: datetime | None) -> str | None:
    """Why a key may not send, as what follows its name; None where it may."""
    if key.id is None:
        return "was deleted"
    if not key.is_active:
        return "is disabled"
    if now is not None and key.expires_at is not None and key.expires_at <= now:
        return "has expired"
    if needs is not None and needs not in expanded(key.scopes):
        return f"no longer has the scope {needs}"
    return None


def fault_of_person(is_active: bool, role: str, needs: str | None) -> str | None:
    """Why a person may not send, as what follows their name; None where they may."""
    if not is_active:
        return "is disabled"
    return None if needs is None or may_in_console(role, needs) else f"no longer has the right {needs}"


def _way_of(row: Transaction) -> WayOut:
    if row.payout_id is not None:
        return WayOut.PAYOUT
    if row.menu_id is not None:
        return WayOut.MENU
    return WayOut.REFUND if row.type == TransactionType.REFUND else WayOut.PAYMENT


_HAS_LIMIT = ApiKey.daily_limit_cents.is_null(False)
_PUBLISHED = CompiledQuery(
    lambda: MenuVersion.select(MenuVersion.key_id, MenuVersion.user_id).where(
        MenuVersion.menu_id == param(MenuVersion.menu_id), MenuVersion.version == param(MenuVersion.version)
    )
)
_SENDER = CompiledQuery(
    lambda: (
        Client.select(
            Client.is_active.alias("is_client_active"),
            ApiKey.id,
            ApiKey.is_active,
            ApiKey.expires_at,
            ApiKey.scopes,
            ApiKey.daily_limit_cents,
            KeySpending.spent_cents,
            User.is_active.alias("is_person_active"),
            User.role,
        )
        .join(ApiKey, JOIN.LEFT_OUTER, on=(ApiKey.id == param(ApiKey.id, "key_id")))
        .join(
            KeySpending,
            JOIN.LEFT_OUTER,
            on=(KeySpending.key_id == ApiKey.id) & (KeySpending.day == param(KeySpending.day)),
        )
        .switch(Client)
        .join(User, JOIN.LEFT_OUTER, on=(User.id == param(User.id, "user_id")))
        .where(Client.id == param(Client.id, "client_id"))
    )
)


def _other_attempts() -> Any:
    """The other attempts to pay the row of a transaction."""
    own = PayoutAttempt.alias("own")
    is_same_row = (own.payout_id == PayoutAttempt.payout_id) & (own.line == PayoutAttempt.line)
    return (
        Transaction.select(
            Transaction.id,
            Transaction.status,
            Transaction.provider_reference,
            Transaction.review_opened_at,
            Transaction.review_closed_at,
        )
        .join(PayoutAttempt, on=(PayoutAttempt.transaction_id == Transaction.id))
        .join(own, on=is_same_row & (own.number != PayoutAttempt.number))
        .where(own.transaction_id == param(PayoutAttempt.transaction_id))
    )


_OTHER_ATTEMPTS = CompiledQuery(_other_attempts)
