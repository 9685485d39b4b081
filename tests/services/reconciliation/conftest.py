"""A client whose payments are compared with statements."""

from __future__ import annotations

import pytest

from tests.support.money import a_client, deposit
from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext


@pytest.fixture
def call(services: Services) -> RequestContext:
    """A client with UGX 50,000."""
    call = a_client()
    deposit(services, call, 50_000)
    return call
