"""Nothing leaves for what was revoked before it began to leave: every way out with every refusal of the gate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from enum import Enum, StrEnum

import pytest
from peewee import IntegrityError

from tests.conftest import MovableClock
from tests.gates.registrations import names_used_of, users_of
from tests.gates.world import WAYS, Sender, World
from tests.support.books import check_everything
from tests.support.money import request
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.payouts import Payout
from ussd_server.models.transactions import Transaction
from ussd_server.services.clients.messages import ChangeRole
from ussd_server.services.gates.messages import WayOut
from ussd_server.services.transactions.messages import GetTransaction, ListTransactions
from ussd_server.status import ServiceError


class Moment(StrEnum):
    """When the refusal comes: before the payment is requested, or while it waits to be sent."""

    BEFORE = "before"
    WAITING = "waiting"


class Refusal(Enum):
    """What keeps money here."""

    KEY_DELETED = "key deleted"
    KEY_DISABLED = "key disabled"
    KEY_EXPIRED = "key expired"
    SCOPE_LOST = "scope lost"
    DAILY_LIMIT = "daily limit"
    PERSON_DISABLED = "person disabled"
    PERSON_DEMOTED = "person demoted"
    CLIENT_DISABLED = "client disabled"
    MONEY_HELD = "money held"


def _expire(world: World) -> None:
    world.change_key(expires_at=world.clock.now() + timedelta(seconds=60))
    world.clock.advance(61)


def _demote(world: World) -> None:
    world.services.people.change_role(ChangeRole(world.person, "developer"), world.boss)


def _hold(world: World) -> None:
    world.services = world.held()


EFFECTS: dict[Refusal, Callable[[World], object]] = {
    Refusal.KEY_DELETED: lambda world: world.services.api_keys.delete(world.key.id, world.boss),
    Refusal.KEY_DISABLED: lambda world: world.change_key(is_active=0),
    Refusal.KEY_EXPIRED: _expire,
    Refusal.SCOPE_LOST: lambda world: world.change_key(scopes=("ussd:*", "menus:*")),
    Refusal.DAILY_LIMIT: lambda world: world.change_key(daily_limit_cents=100),
    Refusal.PERSON_DISABLED: lambda world: world.services.people.set_active(world.person, False, world.boss),
    Refusal.PERSON_DEMOTED: _demote,
    Refusal.CLIENT_DISABLED: World.disable_client,
    Refusal.MONEY_HELD: _hold,
}
OF_KEYS = {
    Refusal.KEY_DELETED,
    Refusal.KEY_DISABLED,
    Refusal.KEY_EXPIRED,
    Refusal.SCOPE_LOST,
    Refusal.DAILY_LIMIT,
}
OF_PEOPLE = {Refusal.PERSON_DISABLED, Refusal.PERSON_DEMOTED}
ALWAYS = {Refusal.CLIENT_DISABLED, Refusal.MONEY_HELD}
BOTH = set(Moment)
NEVER_RECEIVED = "+256770000007"

# For each way out what stops it, and when. A key's expiry is known beforehand, and revokes no menu.
MATRIX: dict[WayOut, dict[Refusal, set[Moment]]] = {
    WayOut.PAYMENT: dict.fromkeys(Refusal, BOTH),
    WayOut.REFUND: dict.fromkeys(Refusal, BOTH),
    WayOut.PAYOUT: dict.fromkeys(Refusal, BOTH),
    WayOut.DATED_PAYOUT: dict.fromkeys(Refusal, BOTH),
    WayOut.MENU: {refusal: BOTH for refusal in Refusal if refusal is not Refusal.KEY_EXPIRED},
    WayOut.OPERATOR_REFUND: {Refusal.CLIENT_DISABLED: BOTH, Refusal.MONEY_HELD: {Moment.WAITING}},
    WayOut.SETTLEMENT: {Refusal.CLIENT_DISABLED: {Moment.BEFORE}, Refusal.MONEY_HELD: {Moment.BEFORE}},
    # What a provider has paid already is booked; nothing leaves.
    WayOut.RECOVERY: {},
}
OF_OPERATORS = {WayOut.OPERATOR_REFUND, WayOut.SETTLEMENT}


def senders(way: WayOut, refusal: Refusal) -> Iterator[Sender]:
    """Whose money a refusal stops on this way."""
    if way in OF_OPERATORS:
        yield Sender.OPERATOR
        return
    if refusal in OF_KEYS | ALWAYS:
        yield Sender.KEY
    if refusal in OF_PEOPLE | ALWAYS:
        yield Sender.PERSON


CASES = [
    pytest.param(way, refusal, moment, sender, id=f"{way.title}-{refusal.value}-{moment}-{sender.value}")
    for way, refusals in MATRIX.items()
    for refusal, moments in refusals.items()
    for moment in sorted(moments)
    for sender in senders(way, refusal)
]


@pytest.fixture
def make(services: Services, clock: MovableClock) -> Iterator[Callable[[Sender], World]]:
    """Makes the world of a test, whose services may be replaced."""
    worlds: list[World] = []

    def made(sender: Sender) -> World:
        worlds.append(World(services, clock, sender))
        return worlds[-1]

    yield made
    for world in worlds:
        if world.services is not services:
            world.services.close()


def test_every_way_out_stands_in_the_matrix_and_is_used() -> None:
    assert set(MATRIX) == set(WAYS) == set(WayOut)
    assert names_used_of(WayOut) == set(WayOut.__members__)


@pytest.mark.parametrize("way", [way for way in WayOut if way is not WayOut.RECOVERY], ids=lambda way: way.title)
@pytest.mark.parametrize("sender", Sender, ids=lambda sender: sender.value)
def test_money_leaves_where_nothing_is_refused(make: Callable[[Sender], World], way: WayOut, sender: Sender) -> None:
    world = make(sender)
    if (way in OF_OPERATORS) is not (sender is Sender.OPERATOR):
        return
    world.send(way)
    world.work(days=3.1 if way is WayOut.DATED_PAYOUT else 0)
    assert len(world.left()) == 1
    assert check_everything() == []


@pytest.mark.parametrize(("way", "refusal", "moment", "sender"), CASES)
def test_nothing_leaves_for_what_was_refused_before_it_began_to_leave(
    make: Callable[[Sender], World], way: WayOut, refusal: Refusal, moment: Moment, sender: Sender
) -> None:
    world = make(sender)
    if moment is Moment.WAITING:
        world.send(way)
        EFFECTS[refusal](world)
    else:
        EFFECTS[refusal](world)
        with suppress(ServiceError):
            world.send(way)
    world.work(days=3.1 if way is WayOut.DATED_PAYOUT else 0)
    assert world.left() == []
    if refusal in OF_KEYS | OF_PEOPLE:
        assert world.reserved_cents() == 0, "what is not sent is not kept from the client"
    assert check_everything() == []


def test_money_goes_to_a_provider_in_one_place_and_is_recorded_in_one_place() -> None:
    """So that a new way out cannot pass the gate by: it has to register as a `WayOut`."""
    assert users_of("send", of="provider") == {"services/processing/processor.py"}
    assert users_of("record_transactions") == {"services/transactions/history.py"}


def test_a_payment_that_may_have_been_sent_is_asked_about_also_for_a_revoked_key(
    make: Callable[[Sender], World],
) -> None:
    world = make(Sender.KEY)
    world.send(WayOut.PAYMENT)
    (claimed,) = world.services.processing.claim(1)
    claimed.asked_at, claimed.status = world.clock.now(), "submitted"
    claimed.save()
    world.services.api_keys.delete(world.key.id, world.boss)
    world.services.processing.advance(claimed)
    world.work()
    (payment,) = world.left()
    assert payment.status != "failed"


@pytest.mark.parametrize("refusal", [Refusal.KEY_DELETED, Refusal.DAILY_LIMIT, Refusal.CLIENT_DISABLED])
def test_a_payment_that_its_provider_never_received_is_not_sent_again_for_what_was_refused(
    make: Callable[[Sender], World], refusal: Refusal
) -> None:
    world = make(Sender.KEY)
    order = request("disbursement", NEVER_RECEIVED, 1000, reference="lost")
    world.services.transactions.create(order, world.caller())
    world.work()
    EFFECTS[refusal](world)
    for _ in range(10):
        world.clock.advance(10)
        world.work()
    payment = Transaction.get(Transaction.reference == "lost")
    assert (payment.ask_attempts, payment.status, payment.is_in_review) == (1, "ambiguous", True)
    assert world.reserved_cents() == 1000_00, "nobody may say that it failed"
    assert check_everything() == []


def test_a_lowered_limit_lets_the_first_payments_leave(make: Callable[[Sender], World]) -> None:
    world = make(Sender.KEY)
    for place in range(5):
        order = request("disbursement", shillings=200, reference=f"pay-{place}")
        world.services.transactions.create(order, world.caller())
    world.change_key(daily_limit_cents=500_00)
    world.work()
    assert [payment.reference for payment in world.left()] == ["pay-0", "pay-1"]
    assert world.reserved_cents() == 0
    assert check_everything() == []


def test_a_payment_that_is_not_sent_says_why(make: Callable[[Sender], World]) -> None:
    world = make(Sender.KEY)
    world.send(WayOut.PAYMENT)
    world.services.api_keys.delete(world.key.id, world.boss)
    world.work()
    transactions, context = world.services.transactions, operator_context(world.client.id)
    (view,) = transactions.list(ListTransactions(reference="pay"), context).items
    assert view.failure is not None
    assert view.failure.code == "CANCELLED"
    history = transactions.get(GetTransaction(view.transaction_id), context)
    assert history.events[-1].detail.note == "The API key that requested the payment was deleted"


def test_who_sends_a_payment_is_never_edited(make: Callable[[Sender], World]) -> None:
    world = make(Sender.KEY)
    world.send(WayOut.PAYMENT)
    world.send(WayOut.DATED_PAYOUT)
    other = world.boss.caller.user_id
    for edit in (
        Transaction.update(user_id=other),
        Transaction.update(menu_id=other),
        Transaction.update(menu_version=7),
        Payout.update(key_limit_cents=900_000_00),
    ):
        with pytest.raises(IntegrityError, match="who sends a payment is never edited"):
            edit.execute()
