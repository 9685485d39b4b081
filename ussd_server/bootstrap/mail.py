"""The services of mail."""

from __future__ import annotations

from dataclasses import dataclass

from ussd_server.bootstrap.foundation import Foundation
from ussd_server.outbound.smtp import SmtpServer, read_smtp_url
from ussd_server.outbound.transport import authorities
from ussd_server.services.clients.password_links import PasswordLinkService
from ussd_server.services.mail.choices import MailService
from ussd_server.services.mail.outbox import use_mail
from ussd_server.services.mail.reminders import MailReminders
from ussd_server.services.mail.sending import MailSender
from ussd_server.settings import Settings


@dataclass(frozen=True, slots=True)
class MailServices:
    """Mails: what is sent, by whom it is wanted, and what became of it."""

    mails: MailService
    sender: MailSender
    reminders: MailReminders


def mail_services(base: Foundation, links: PasswordLinkService) -> MailServices:
    """Build what sends mails, and have services write them if a mail server is set up."""
    settings = base.settings
    use_mail(settings.smtp_url is not None)
    sender = MailSender(
        smtp_server(settings), settings.mail_from or "", settings.public_url or "", links, base.clock,
        base.at_kill_point, base.heartbeat.new_lease_token,
    )  # fmt: skip
    return MailServices(MailService(base.tokens), sender, MailReminders(base.clock))


def smtp_server(settings: Settings, timeout_seconds: float = 30.0) -> SmtpServer | None:
    """The mail server, None where none is set up. Connects to nothing yet."""
    if settings.smtp_url is None:
        return None
    return SmtpServer(read_smtp_url(settings.smtp_url), authorities(settings.ca_file), timeout_seconds)
