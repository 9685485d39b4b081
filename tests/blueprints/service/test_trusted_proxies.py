"""The caller's address behind trusted proxies: theirs alone, whatever the caller writes before it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.support.shop import CODE, PHONE, Shop
from ussd_server.api.trusted_proxies import forwarded_address
from ussd_server.app import create_app
from ussd_server.bootstrap import Services

UNREADABLE = [
    '"',
    '"a, 10.0.0.1',
    'a" , 10.0.0.1',
    '"\\", 10.0.0.1',
    "unknown",
    "",
    "10.0.0.1,",
    "_hidden",
    "10.0.0.1.2",
    "9" * 8000,
]


@pytest.mark.parametrize(
    ("forwarded", "proxies", "address"),
    [
        ("10.0.0.1", 1, "10.0.0.1"),
        ("1.1.1.1, 10.0.0.1", 1, "10.0.0.1"),
        ("1.1.1.1,10.0.0.1 ,\t10.0.0.2", 2, "10.0.0.1"),
        ('"a, b", 10.0.0.1', 1, "10.0.0.1"),
        ("nonsense, 10.0.0.1:4711", 1, "10.0.0.1"),
        ("2001:db8::1", 1, "2001:db8::1"),
        ('"[2001:db8::1]:80"', 1, "2001:db8::1"),
        ("[2001:db8::1]", 1, "2001:db8::1"),
        ("10.0.0.1", 2, ""),
    ],
)
def test_the_address_is_the_one_that_the_first_trusted_proxy_saw(forwarded: str, proxies: int, address: str) -> None:
    assert forwarded_address(forwarded, proxies) == address


@pytest.mark.parametrize("forwarded", ["1.1.1.1, unknown, 10.0.0.1", '1.1.1.1, 10.0.0.1, "'])
def test_every_trusted_proxy_writes_an_address(forwarded: str) -> None:
    with pytest.raises(ValueError):
        forwarded_address(forwarded, 2)


@pytest.fixture
def behind_proxy(services: Services) -> FlaskClient:
    services.settings = replace(services.settings, trusted_proxies=1)  # type: ignore[misc]
    return create_app(services).test_client()


@pytest.mark.parametrize("forwarded", [each for each in UNREADABLE if each])
def test_an_address_that_cannot_be_read_is_refused(behind_proxy: FlaskClient, shop: Shop, forwarded: str) -> None:
    headers = {"X-Forwarded-For": forwarded}
    for path in ("/api/balance", "/api/clients/login", "/console/sign-in", "/health/live", "/nowhere"):
        assert behind_proxy.post(path, headers=headers).status_code == 400
    form: dict[str, Any] = {"sessionId": "A", "phoneNumber": PHONE, "serviceCode": CODE, "text": ""}
    reply = behind_proxy.post(shop.channel.gateway_path, data=form, headers=headers)
    assert (reply.status_code, reply.text[:4]) == (200, "END ")
    assert behind_proxy.post("/ussd/africastalking/unknown", data=form, headers=headers).status_code == 404
