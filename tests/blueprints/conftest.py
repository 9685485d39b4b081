"""A company and its owner, for the tests of doors."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from tests.companies import Browser, Company
from ussd_server.house import Services


@pytest.fixture
def company(house: Services) -> Company:
    return Company(house)


@pytest.fixture
def owner(company: Company, web: FlaskClient) -> Browser:
    return company.browser(web)
