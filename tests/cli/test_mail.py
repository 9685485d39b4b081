"""`mail test`: one mail at once, and the reply of the mail server in a sentence."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.support.commands import run_command
from tests.support.mail_server import PUBLIC_URL, SENDER, MailServer
from tests.support.real_service.service import environment
from ussd_server.settings import Settings

OPS = "ops@example.org"


def mail_test(settings: Settings, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    given = environment(settings.data_dir, USSD_DATABASE_URL=settings.database_url, **more)
    return run_command("mail", "test", OPS, *arguments, env=given)


@pytest.mark.usefixtures("services")
def test_a_test_mail_is_sent_or_the_reason_is_said(settings: Settings, mail_server: MailServer) -> None:
    more = {"USSD_SMTP_URL": mail_server.url, "USSD_MAIL_FROM": SENDER, "USSD_PUBLIC_URL": PUBLIC_URL}
    sent = mail_test(settings, "--json", **more)
    assert (sent.returncode, json.loads(sent.stdout)) == (0, {"sent": True, "recipient": OPS})
    assert len(mail_server.of(OPS)) == 1
    mail_server.refusals[OPS] = "550 No such user"
    refused = mail_test(settings, **more)
    assert refused.returncode == 1
    assert "Not sent: the mail server refused the recipient (550)." in refused.stderr
    assert "USSD_SMTP_URL is not set" in mail_test(settings).stderr
