"""Services of an installation that sends mails, and a worker's step that sends all that is due."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.mail_server import MailServer, mailing
from ussd_server.bootstrap import Services
from ussd_server.settings import Settings


@pytest.fixture
def settings(settings: Settings, mail_server: MailServer) -> Settings:
    return mailing(settings, mail_server.url)


@pytest.fixture
def send_mails(services: Services) -> Callable[[], None]:
    """Send every mail that is due, as a worker does."""

    def send() -> None:
        while claimed := services.mail_sender.claim(10):
            for mail_id in claimed:
                services.mail_sender.send(mail_id)

    return send
