"""`mail`: the mail server."""

from __future__ import annotations

import click

from ussd_server.cli import services
from ussd_server.cli.commands import group, show
from ussd_server.services.mail.messages import TROUBLES


@group()
def mail() -> None:
    """Mails to people of clients and to operators."""


@mail.command(example="ops@example.org")
@click.argument("address")
def test(address: str) -> None:
    """Send a test mail to ADDRESS at once, and say what the mail server replied."""
    if not services().mails.is_on:
        raise click.ClickException("No mail is sent: USSD_SMTP_URL is not set.")
    result = services().mail_sender.test(address)
    if result.trouble is not None:
        code = f" ({result.code})" if result.code else ""
        raise click.ClickException(f"Not sent: {TROUBLES[result.trouble]}{code}.")
    show({"sent": True, "recipient": address}, f"The mail server accepted the mail to {address}.")
