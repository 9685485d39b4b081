"""Channels and service codes: which paths are accepted, and which client has a code."""

from __future__ import annotations

import pytest

from tests.support.shop import CODE, OPERATOR, Shop
from ussd_server.bootstrap import Services
from ussd_server.models.ussd import Channel
from ussd_server.services.menus.messages import AssignCode
from ussd_server.services.ussd.messages import CreateChannel
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id


def _refusal(services: Services, adapter: str, secret: str) -> Code:
    with pytest.raises(ServiceError) as refused:
        services.channels.find(adapter, secret)
    return refused.value.code


def test_a_channel_is_found_by_the_path_it_was_given(services: Services) -> None:
    shop = Shop(services)
    _, _, adapter, secret = shop.channel.gateway_path.split("/")
    found = services.channels.find(adapter, secret)
    assert (found.channel_id, found.client_id) == (shop.channel.channel_id, shop.client_id)
    assert found.display.transliterates
    assert services.channels.find("at", secret).channel_id == shop.channel.channel_id


def test_a_wrong_secret_another_adapter_and_a_closed_channel_are_not_found(services: Services) -> None:
    shop = Shop(services)
    _, _, adapter, secret = shop.channel.gateway_path.split("/")
    assert _refusal(services, adapter, secret[:-1]) is Code.NOT_FOUND
    assert _refusal(services, adapter, "ŋ\udcff" * 500) is Code.NOT_FOUND
    assert _refusal(services, "hubtel", secret) is Code.NOT_FOUND
    assert _refusal(services, "nobody", secret) is Code.NOT_FOUND
    services.channels.set_active(shop.channel.channel_id, False, OPERATOR)
    assert _refusal(services, adapter, secret) is Code.NOT_FOUND
    services.channels.set_active(shop.channel.channel_id, True, OPERATOR)
    assert services.channels.find(adapter, secret).channel_id == shop.channel.channel_id


def test_the_secret_of_a_path_stands_nowhere_in_the_clear(services: Services) -> None:
    shop = Shop(services)
    secret = shop.channel.gateway_path.rpartition("/")[2].encode()
    row = Channel.get_by_id(shop.channel.channel_id)
    assert secret not in bytes(row.secret_digest) + bytes(row.secret_sealed)
    assert services.channels.list(OPERATOR)[0].gateway_path == shop.channel.gateway_path


def test_a_code_belongs_to_one_client_and_may_be_assigned_to_it_twice(services: Services) -> None:
    shop = Shop(services)
    other = Shop(services, code="*200#")
    again = services.channels.assign_code(AssignCode(CODE.removesuffix("#"), shop.client_id), OPERATOR)
    assert (again.service_code, again.menu_id) == (CODE, "shop")
    with pytest.raises(ServiceError, match="Belongs to another client"):
        services.channels.assign_code(AssignCode(CODE, other.client_id), OPERATOR)


def test_what_is_no_code_is_refused(services: Services) -> None:
    shop = Shop(services)
    for code in ("", "#", "165", "*#", "*165##", "**165#", "*16a#", "*١٦٥#", f"*{'1' * 19}#", "*165#\n"):
        with pytest.raises(ServiceError) as refused:
            services.channels.assign_code(AssignCode(code, shop.client_id), OPERATOR)
        assert refused.value.code is Code.INVALID_REQUEST, code


def test_a_channel_needs_a_known_adapter_and_an_existing_client(services: Services) -> None:
    with pytest.raises(ServiceError, match="adapter: Must be one of africastalking"):
        services.channels.create(CreateChannel("pigeon"), OPERATOR)
    with pytest.raises(ServiceError, match="Client not found"):
        services.channels.create(CreateChannel("json", new_id(services.clock.now())), OPERATOR)
