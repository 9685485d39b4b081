"""`callbacks`: the addresses at which providers, and the sender of messages, call back."""

from __future__ import annotations

import click

from ussd_server.cli import services
from ussd_server.cli.commands import command, show_lines
from ussd_server.context import operator_context

_NONE = (
    "In the settings of this shell, no provider is switched on. On an installed server `ussd callbacks` has the "
    "settings of the service; docs/guides/mtn.md and docs/guides/airtel.md list those of a provider."
)


@command()
@click.option("--show-secrets", "shows_secrets", is_flag=True, help="Show also what incoming payments need.")
def callbacks(shows_secrets: bool) -> None:
    """Print the callback address of each provider, and of the sender of messages; each is a credential.

    With --show-secrets also the path at which it checks and reports payments that payers make by themselves, and the
    Standard Webhooks secret with which it signs its reports.
    """
    base_url = services().settings.public_url or ""
    known = [*services().callbacks.paths(operator_context()), *services().sms_reports.paths(operator_context())]
    paths = {each.provider: each.path for each in known}
    incoming = services().notices.paths(operator_context()) if shows_secrets else []
    listed: dict[str, dict[str, str | None]] = {
        provider: {"provider": provider, "path": path, "url": f"{base_url}{path}" if base_url else None}
        for provider, path in paths.items()
    }
    lines = [f"{provider:<14}  {base_url}{path}" for provider, path in paths.items()]
    for each in incoming:
        listed.setdefault(each.provider, {"provider": each.provider, "path": None, "url": None})
        listed[each.provider] |= {"incoming_path": each.path, "incoming_secret": each.secret}
        lines += [f"{each.provider:<14}  {base_url}{each.path}", f"{each.provider:<14}  signed with {each.secret}"]
    if not base_url and lines:
        lines.append("Prefix each path with your public address, or set USSD_PUBLIC_URL.")
    show_lines(list(listed.values()), lines, _NONE)
