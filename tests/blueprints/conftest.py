"""A client and its owner, and a shop with its subscribers, for the tests of endpoints."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from tests.support.example_client import Browser, ExampleClient
from tests.support.program import Program
from tests.support.shop import CODE, PHONE, Shop
from ussd_server.bootstrap import Services

Dial = Callable[..., str]


@pytest.fixture
def example_client(services: Services) -> ExampleClient:
    return ExampleClient(services)


@pytest.fixture
def owner(example_client: ExampleClient, web: FlaskClient) -> Browser:
    return example_client.browser(web)


@pytest.fixture
def program(services: Services, web: FlaskClient) -> Program:
    """A client's program that may do everything."""
    return Program(services, web)


@pytest.fixture
def shop(services: Services) -> Shop:
    """A client whose menu answers."""
    return Shop(services)


@pytest.fixture
def at(shop: Shop, web: FlaskClient) -> Dial:
    """Post as Africa's Talking does; gives the body of the answer."""

    def post(text: str, session: str = "ATUid_1", phone: str = PHONE, **changes: str) -> str:
        form = {"sessionId": session, "phoneNumber": phone, "networkCode": "64110", "serviceCode": CODE, "text": text}
        reply = web.post(shop.channel.gateway_path, data=form | changes)
        assert (reply.status_code, reply.mimetype) == (200, "text/plain")
        return reply.text

    return post
