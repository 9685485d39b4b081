"""Channels and service codes: who may come in, by which path, and whose a code is."""

from __future__ import annotations

import pytest

from tests.shop import CODE, OPERATOR, Shop
from ussd_server.house import Services
from ussd_server.messages.channels import AssignCode, CreateChannel
from ussd_server.models.base import new_id
from ussd_server.models.ussd import Channel
from ussd_server.rpc.status import Code, ServiceError


def _refusal(house: Services, adapter: str, secret: str) -> Code:
    with pytest.raises(ServiceError) as refused:
        house.channels.identify(adapter, secret)
    return refused.value.code


def test_a_channel_is_found_by_the_path_it_was_given(house: Services) -> None:
    shop = Shop(house)
    _, _, adapter, secret = shop.channel.gateway_path.split("/")
    found = house.channels.identify(adapter, secret)
    assert (found.channel_id, found.client_id, found.transliterates) == (shop.channel.channel_id, shop.client_id, True)
    assert house.channels.identify("at", secret).channel_id == shop.channel.channel_id


def test_a_wrong_secret_another_adapter_and_a_closed_channel_are_not_found(house: Services) -> None:
    shop = Shop(house)
    _, _, adapter, secret = shop.channel.gateway_path.split("/")
    assert _refusal(house, adapter, secret[:-1]) is Code.NOT_FOUND
    assert _refusal(house, adapter, "ŋ\udcff" * 500) is Code.NOT_FOUND
    assert _refusal(house, "hubtel", secret) is Code.NOT_FOUND
    assert _refusal(house, "nobody", secret) is Code.NOT_FOUND
    house.channels.set_active(shop.channel.channel_id, False, OPERATOR)
    assert _refusal(house, adapter, secret) is Code.NOT_FOUND
    house.channels.set_active(shop.channel.channel_id, True, OPERATOR)
    assert house.channels.identify(adapter, secret).channel_id == shop.channel.channel_id


def test_the_secret_of_a_path_stands_nowhere_in_the_clear(house: Services) -> None:
    shop = Shop(house)
    secret = shop.channel.gateway_path.rpartition("/")[2].encode()
    row = Channel.get_by_id(shop.channel.channel_id)
    assert secret not in bytes(row.secret_digest) + bytes(row.secret_sealed)
    assert house.channels.list(OPERATOR)[0].gateway_path == shop.channel.gateway_path


def test_a_code_belongs_to_one_client_and_may_be_assigned_to_it_twice(house: Services) -> None:
    shop = Shop(house)
    other = Shop(house, code="*200#")
    again = house.channels.assign_code(AssignCode(CODE.removesuffix("#"), shop.client_id), OPERATOR)
    assert (again.service_code, again.menu_id) == (CODE, "shop")
    with pytest.raises(ServiceError, match="Belongs to another client"):
        house.channels.assign_code(AssignCode(CODE, other.client_id), OPERATOR)


@pytest.mark.parametrize(
    "code", ["", "#", "165", "*#", "*165##", "**165#", "*16a#", "*١٦٥#", f"*{'1' * 19}#", "*165#\n"]
)
def test_what_is_no_code_is_refused(house: Services, code: str) -> None:
    shop = Shop(house)
    with pytest.raises(ServiceError) as refused:
        house.channels.assign_code(AssignCode(code, shop.client_id), OPERATOR)
    assert refused.value.code is Code.INVALID_REQUEST


def test_only_the_operator_makes_channels_and_gives_codes(house: Services) -> None:
    shop = Shop(house)
    for attempt in (
        lambda: house.channels.create(CreateChannel("json"), shop.call),
        lambda: house.channels.assign_code(AssignCode("*1#", shop.client_id), shop.call),
        lambda: house.channels.list(shop.call),
        lambda: house.channels.set_active(shop.channel.channel_id, False, shop.call),
    ):
        with pytest.raises(ServiceError) as refused:
            attempt()
        assert refused.value.code is Code.INSUFFICIENT_SCOPE


def test_a_channel_needs_a_known_adapter_and_an_existing_client(house: Services) -> None:
    with pytest.raises(ServiceError, match="adapter: Must be one of africastalking"):
        house.channels.create(CreateChannel("pigeon"), OPERATOR)
    with pytest.raises(ServiceError, match="Client not found"):
        house.channels.create(CreateChannel("json", new_id(house.clock.now())), OPERATOR)
