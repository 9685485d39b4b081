"""Services of an installation that sends mails."""

from __future__ import annotations

import pytest

from tests.support.mail_server import MailServer, mailing
from ussd_server.settings import Settings


@pytest.fixture
def settings(settings: Settings, mail_server: MailServer) -> Settings:
    return mailing(settings, mail_server.url)
