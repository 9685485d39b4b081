"""`callbacks`: the addresses at which providers, and the sender of messages, call back."""

from __future__ import annotations

import click

from ussd_server.cli import open_services, show, with_json
from ussd_server.context import operator_context

_NONE = (
    "In the settings of this shell, no provider is switched on. On an installed server `ussd callbacks` has the "
    "settings of the service; docs/guides/mtn.md and docs/guides/airtel.md list those of a provider."
)


@click.command()
@with_json
def callbacks(as_json: bool) -> None:
    """Print the callback address of each provider, and of the sender of messages; each is a credential."""
    with open_services() as services:
        base_url = services.settings.public_url or ""
        paths = [*services.callbacks.paths(operator_context()), *services.sms_reports.paths(operator_context())]
    listed = [
        {"provider": each.provider, "path": each.path, "url": f"{base_url}{each.path}" if base_url else None}
        for each in paths
    ]
    lines = [f"{each.provider:<14}  {base_url}{each.path}" for each in paths]
    if not base_url and lines:
        lines.append("Prefix each path with your public address, or set USSD_PUBLIC_URL.")
    show(listed, "\n".join(lines) or _NONE, as_json=as_json)
