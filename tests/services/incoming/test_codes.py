"""Payment codes: each belongs to one client by its prefix, and says what it takes."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.conftest import MovableClock
from tests.support.example_client import ExampleClient
from tests.support.money import operator
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.audit.messages import ListAuditEvents
from ussd_server.services.incoming import codes
from ussd_server.services.incoming.messages import PutPaymentCode, SetPrefix
from ussd_server.status import Code, ServiceError
from ussd_server.wire import ListPage


def refusal(services: Services, request: PutPaymentCode, client: ExampleClient) -> str:
    with pytest.raises(ServiceError) as refused:
        services.payment_codes.put(request, operator_context(client.id))
    assert refused.value.code is Code.INVALID_REQUEST
    return refused.value.message


def test_a_code_begins_with_the_prefix_that_the_operator_gave(services: Services) -> None:
    client = ExampleClient(services)
    assert "no prefix" in refusal(services, PutPaymentCode("SCH1", "Fees"), client)
    services.payment_codes.set_prefix(SetPrefix(client.id, "sch"), operator())
    assert "SCH followed by" in refusal(services, PutPaymentCode("ABC1", "Fees"), client)
    assert "SCH followed by" in refusal(services, PutPaymentCode("SCH", "Fees"), client)
    assert "SCH followed by" in refusal(services, PutPaymentCode("SCH" + "1" * 15, "Fees"), client)
    made = services.payment_codes.put(PutPaymentCode("sch-12 a", "Fees"), operator_context(client.id))
    assert (made.code, made.account, made.single_use) == ("SCH12A", "main", False)
    assert services.payment_codes.get("SCH 12–A", operator_context(client.id)) == made


def test_no_prefix_is_or_begins_that_of_another_client(services: Services) -> None:
    school, shop = ExampleClient(services, "school"), ExampleClient(services, "shop")
    give = services.payment_codes.set_prefix
    give(SetPrefix(school.id, "SCH"), operator())
    for prefix in ("SCH", "SC", "SCHO", "S", "SCHOOLS", "SÇH", "12"):
        with pytest.raises(ServiceError) as refused:
            give(SetPrefix(shop.id, prefix), operator())
        assert refused.value.code is Code.INVALID_REQUEST
    give(SetPrefix(shop.id, "SHOP"), operator())
    services.payment_codes.put(PutPaymentCode("SHOP1", "Tea"), operator_context(shop.id))


def test_codes_with_an_earlier_prefix_stay_and_are_begun_by_no_other_prefix(services: Services) -> None:
    school, shop = ExampleClient(services, "school"), ExampleClient(services, "shop")
    give, put = services.payment_codes.set_prefix, services.payment_codes.put
    give(SetPrefix(shop.id, "SHOP"), operator())
    put(PutPaymentCode("SHOP1", "Tea"), operator_context(shop.id))
    assert give(SetPrefix(shop.id, "TEA"), operator()).prefix == "TEA"
    assert put(PutPaymentCode("SHOP1", "Coffee"), operator_context(shop.id)).description == "Coffee"
    assert put(PutPaymentCode("TEA1", "Tea"), operator_context(shop.id)).code == "TEA1"
    assert "TEA followed by" in refusal(services, PutPaymentCode("SHOP2", "Tea"), shop)
    for prefix in ("SHOP", "SH"):
        with pytest.raises(ServiceError, match="A payment code of another client begins with it"):
            give(SetPrefix(school.id, prefix), operator())


def test_a_client_has_no_more_codes_than_are_allowed(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes, "MOST_CODES", 2)
    client = ExampleClient(services)
    services.payment_codes.set_prefix(SetPrefix(client.id, "SCH"), operator())
    for code in ("SCH1", "SCH2", "SCH1"):
        services.payment_codes.put(PutPaymentCode(code, "Fees"), operator_context(client.id))
    assert refusal(services, PutPaymentCode("SCH3", "Fees"), client) == "A client has at most 2 payment codes"


def test_the_expiry_of_a_code_lies_in_the_future(services: Services, clock: MovableClock) -> None:
    client = ExampleClient(services)
    services.payment_codes.set_prefix(SetPrefix(client.id, "SCH"), operator())
    assert "in the future" in refusal(services, PutPaymentCode("SCH1", "Fees", expires_at=clock.now()), client)
    lasting = PutPaymentCode("SCH1", "Fees", expires_at=clock.now() + timedelta(seconds=1))
    made = services.payment_codes.put(lasting, operator_context(client.id))
    clock.advance(2)
    assert services.payment_codes.put(lasting, operator_context(client.id)) == made, "a repeat changes nothing"


def test_a_fixed_amount_and_bounds_exclude_each_other(services: Services) -> None:
    client = ExampleClient(services)
    services.payment_codes.set_prefix(SetPrefix(client.id, "SCH"), operator())
    assert "beside" in refusal(services, PutPaymentCode("SCH1", "Fees", amount_cents=1, max_amount_cents=2), client)
    wrong = PutPaymentCode("SCH1", "Fees", min_amount_cents=2, max_amount_cents=1)
    assert "at least min_amount" in refusal(services, wrong, client)


def test_the_same_request_again_changes_nothing_and_another_one_replaces_all(services: Services) -> None:
    client = ExampleClient(services)
    services.payment_codes.set_prefix(SetPrefix(client.id, "SCH"), operator())
    codes, context = services.payment_codes, operator_context(client.id)
    first = codes.put(PutPaymentCode("SCH1", "Fees", amount_cents=500, single_use=True), context)
    assert codes.put(PutPaymentCode("SCH1", "Fees", amount_cents=500, single_use=True), context) == first
    changed = codes.put(PutPaymentCode("SCH1", "Meals"), context)
    assert (changed.description, changed.amount_cents, changed.single_use) == ("Meals", None, False)
    assert codes.get("SCH1", context) == changed
    codes.delete("sch1", context)
    assert codes.list(ListPage(), context).items == ()
    actions = [event.action for event in services.audit.list(ListAuditEvents(), client.at_console()).items]
    assert {"payment_code.created", "payment_code.changed", "payment_code.deleted"} <= set(actions)
    assert actions.count("payment_code.changed") == 1


def test_the_code_of_another_client_does_not_exist(services: Services) -> None:
    school, shop = ExampleClient(services, "school"), ExampleClient(services, "shop")
    services.payment_codes.set_prefix(SetPrefix(school.id, "SCH"), operator())
    services.payment_codes.put(PutPaymentCode("SCH1", "Fees"), operator_context(school.id))
    for act in (services.payment_codes.get, services.payment_codes.delete):
        with pytest.raises(ServiceError) as refused:
            act("SCH1", operator_context(shop.id))
        assert refused.value.code is Code.NOT_FOUND
