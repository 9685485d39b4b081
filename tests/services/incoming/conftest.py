"""Fixtures of incoming payments."""

from __future__ import annotations

import pytest

from tests.services.incoming.till import Till
from tests.support.example_client import ExampleClient
from tests.support.money import operator
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.services.incoming.messages import PutPaymentCode, SetPrefix


@pytest.fixture
def school(services: Services) -> ExampleClient:
    """A client with the payment code SCH1042, which takes any amount."""
    client = ExampleClient(services, "school")
    services.payment_codes.set_prefix(SetPrefix(client.id, "SCH"), operator())
    services.payment_codes.put(PutPaymentCode("SCH1042", "Fees of Achieng"), operator_context(client.id))
    return client


@pytest.fixture
def till(services: Services) -> Till:
    return Till(services)
