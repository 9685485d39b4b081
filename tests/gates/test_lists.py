"""Lists of movements: money that moved is shown alike, whether it is a payment of ours or was told otherwise."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.gates.two_records import PAYER, RECEIPT
from tests.gates.ways_in import SHILLINGS, Enquired, World
from tests.support.money import operator
from ussd_server.services.gates.messages import UseKind, WayIn
from ussd_server.services.movements.messages import ListMovements, MovementView
from ussd_server.status import ServiceError
from ussd_server.values import KAMPALA

pytestmark = pytest.mark.both_databases


def _listed(world: World, **wanted: object) -> list[MovementView]:
    """The whole list, page by page."""
    found, cursor = list[MovementView](), None
    while True:
        request = ListMovements(limit=2, cursor=cursor, **wanted)  # type: ignore[arg-type]
        page = world.services.movements.list(request, operator())
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found


def test_a_list_has_each_money_once_the_newest_first_and_our_payments_as_their_own_movement(world: World) -> None:
    ours = Enquired(world, "ours", PAYER, RECEIPT)
    ours.prepare()
    world.till.pay("SCH1042", SHILLINGS, "N1")
    ours.report()
    world.till.pay("thanks", SHILLINGS, "N2")
    found = _listed(world)
    assert [each.receipts for each in found] == [("N2",), ("N1",), (RECEIPT,)]
    own = found[2]
    assert (own.movement_id, own.account, own.direction) == (ours.transaction_id, "sandbox", "in")
    assert (own.reference, own.phone_number) == (ours.row.provider_reference, PAYER)
    assert [each.way for each in own.told] == [WayIn.ENQUIRY]
    assert [each.use and each.use.kind for each in found] == [None, UseKind.PAYMENT, UseKind.PAYMENT]
    day = ours.row.completed_at.astimezone(KAMPALA).date()
    assert _listed(world, account="sandbox", day=day) == found
    assert [_listed(world, day=day + timedelta(days=each)) for each in (-1, 1)] == [[], []]
    assert (_listed(world, account="bank"), _listed(world, is_held=True)) == ([], found[:1])


def test_a_payment_shows_the_movement_that_it_uses_or_is(world: World) -> None:
    show = world.services.movements.show
    ours = Enquired(world, "ours", PAYER, RECEIPT)
    ours.prepare()
    with pytest.raises(ServiceError, match="Movement not found"):
        show(ours.transaction_id, operator())
    ours.report()
    shown = show(ours.transaction_id, operator())
    assert (shown.movement_id, shown.history) == (ours.transaction_id, (shown.use,))
    paid = world.till.pay("SCH1042", SHILLINGS, "N1")
    (told,) = (each for each in _listed(world) if each.receipts == ("N1",))
    assert told.use is not None
    assert show(told.use.transaction_id or "", operator()).movement_id == told.movement_id, paid
