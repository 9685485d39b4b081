"""The console's phone speaks every gateway's format, and reaches nothing that is not its client's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.shop import CODE, OPERATOR, PHONE, VOUCHER, Shop, client_call
from ussd_server.bootstrap import Services
from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.messages import HandsetCall
from ussd_server.models.clients import AuditEvent
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.services.transactions.messages import ListTransactions
from ussd_server.services.ussd.messages import CreateChannel, HandsetView
from ussd_server.status import Code, ServiceError

GATEWAYS = sorted({adapter.name for adapter in ADAPTERS.values()})
CALL = HandsetCall("0123456789abcdef-0", PHONE, CODE, "64110")


def walk(shop: Shop, *entries: str, call: HandsetCall = CALL) -> list[HandsetView]:
    """Type entries one after the other; every screen."""
    calls = [replace(call, entries=entries[:number]) for number in range(len(entries) + 1)]
    return [shop.services.handsets.step(each, shop.call) for each in calls]


@pytest.mark.parametrize("gateway", GATEWAYS)
def test_a_phone_pays_once_and_hangs_up_over_every_gateway(services: Services, gateway: str) -> None:
    shop, handsets = Shop(services, gateway=gateway), services.handsets
    root, amount, sure = walk(shop, "1", "5000")
    assert (root.screen.text.split("\n")[0], root.screen.node, root.version) == ("Welcome to ACME", "root", 1)
    assert [(key.key, key.goto) for key in amount.screen.keys] == [("", "sure"), ("0", "root"), ("00", "root")]
    assert (sure.screen.used, sure.screen.limit, sure.screen.variables) == (34, 160, {"amount": 5000})
    assert sure.visited == ("root", "amount", "sure")
    paying = replace(CALL, entries=("1", "5000", "1"))
    paid, again = handsets.step(paying, shop.call), handsets.step(paying, shop.call)
    assert paid == again == handsets.look(paying, shop.call)
    assert (paid.screen.text, paid.screen.ends, paid.screen.keys) == ("Approve the prompt on your phone.", True, ())
    assert [row.id for row in Transaction.select()] == [paid.transaction_id]
    dialled = replace(CALL, session_id="0123456789abcdef-1", phone_number="+256770000001", dialled="1*700")
    (ahead,) = walk(shop, call=dialled)
    assert (ahead.screen.node, ahead.screen.variables) == ("sure", {"amount": 700})
    handsets.hang_up(dialled, shop.call)
    ended = services.api_sessions.get(str(ahead.session_id), shop.call)
    assert ended.status == ("ended_by_user" if ADAPTERS[gateway].hang_up(dialled) else "active")
    assert [row.phone_number for row in UssdSession.select().order_by(UssdSession.id)] == [PHONE, "+256770000001"]
    actions = {row.action for row in AuditEvent.select()}
    menu = {"menu.saved", "menu.published", "menu.code_bound"}
    assert actions == {"channel.created", "code.assigned", "phone.dialled"} | menu


def test_a_language_is_chosen_and_a_secret_stays_out_of_what_is_shown(services: Services) -> None:
    shop = Shop(services)
    first, *_ = walk(shop, call=replace(CALL, language="lg"))
    assert (first.screen.language, first.screen.text.split("\n")[0]) == ("lg", "Tukusanyukidde")
    *_, noted = walk(shop, "4", VOUCHER, call=replace(CALL, session_id="0123456789abcdef-1", language="en"))
    assert (noted.screen.node, noted.screen.language) == ("used", "en")
    assert VOUCHER not in repr(noted)
    (unchanged,) = walk(shop, call=replace(CALL, session_id="0123456789abcdef-2", language="xx"))
    assert unchanged.screen.language == "en"


def test_the_phone_serves_its_clients_codes_alone(services: Services) -> None:
    shop, handsets = Shop(services), services.handsets
    stranger = client_call(Shop(services, code="*285#").client_id)
    for call, code in (
        (replace(CALL, phone_number="12"), Code.INVALID_PHONE_NUMBER),
        (replace(CALL, session_id="x"), Code.INVALID_REQUEST),
        (replace(CALL, entries=("1" * 600, "1" * 600)), Code.INVALID_REQUEST),
        (replace(CALL, service_code="*285#"), Code.NOT_FOUND),
    ):
        with pytest.raises(ServiceError) as refused:
            handsets.step(call, shop.call)
        assert refused.value.code is code
    walk(shop)
    with pytest.raises(ServiceError, match="Service code not found"):
        handsets.look(CALL, stranger)
    with pytest.raises(ServiceError):
        handsets.step(CALL, client_call(shop.client_id, frozenset({"ussd:read"})))
    services.channels.set_active(shop.channel.channel_id, False, OPERATOR)
    with pytest.raises(ServiceError, match="No open channel"):
        handsets.step(CALL, shop.call)
    services.channels.create(CreateChannel("json"), OPERATOR)
    assert walk(shop, call=replace(CALL, session_id="0123456789abcdef-1"))[0].screen.node == "root"
    assert services.transactions.list(ListTransactions(), shop.call).items == ()
