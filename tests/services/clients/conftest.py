"""A client with people and keys."""

from __future__ import annotations

import pytest

from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services


@pytest.fixture
def example_client(services: Services) -> ExampleClient:
    return ExampleClient(services)
