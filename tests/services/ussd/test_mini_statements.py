"""The latest payments of a subscriber, as a menu shows them."""

from __future__ import annotations

from datetime import timedelta

from tests.conftest import MovableClock
from tests.services.subscribers.test_pins import savings_group
from tests.support.money import request, work
from tests.support.shop import CODE, PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.services.ussd.messages import BeginSession, EnterText

OTHER = "+256770000100"


def test_a_mini_statement_has_the_days_of_kampala_and_what_others_sent(services: Services, clock: MovableClock) -> None:
    shop = Shop(services, savings_group())
    deposited = request(number=PHONE, account=PHONE, reference="deposited")
    clock.anchor(clock.now().replace(hour=20, minute=59) + timedelta(days=1))
    services.transactions.create(deposited, shop.call)
    work(services, clock, 30, step=10)
    before, after = (f"{clock.now() + timedelta(days=days):%d/%m}" for days in (0, 1))
    clock.advance(60)
    services.transactions.create(request("transfer", PHONE, 700, to_phone_number=OTHER, reference="sent"), shop.call)
    screens = []
    for number in (PHONE, OTHER):
        session = services.api_sessions.begin(BeginSession(number, CODE), shop.call)
        screens.append(services.api_sessions.enter(EnterText(session.session_id, "5"), shop.call).message)
    assert f"1. {after} transfer 700\n2. {before} collection 5,000" in screens[0]
    assert f"1. {after} transfer 700\n0 Back" in screens[1]
