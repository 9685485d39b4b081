"""Names on the command line: in any case, and with the nearest one where nothing has the name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import click

from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.messages.clients import ClientView
from ussd_server.status import Code, ServiceError

_MOST_NAMED = 20


class KnownName(click.Choice[str]):
    """One of a few names, in any case."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(list(names), case_sensitive=False)

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """Return the message for a name that is not among them, with the nearest one."""
        return f"{super().get_invalid_choice_message(value, ctx)}{nearest(str(value), self.choices)}"


def client_named(services: Services, name_or_id: str) -> ClientView:
    """Return the client of this name, in any case, or of this id. Raises ClickException and says what there is."""
    try:
        return services.clients.clients.find(name_or_id, operator_context())
    except ServiceError as refusal:
        if refusal.code is not Code.NOT_FOUND:
            raise
    known = services.clients.clients.list(operator_context())
    alike = [client for client in known if client.name.casefold() == name_or_id.strip().casefold()]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise click.ClickException(f"Several clients are called so: {_listed(client.name for client in alike)}.")
    found = nearest(name_or_id, [client.name for client in known])
    if not known:
        found = " There are no clients yet; `ussd-server clients create NAME` makes one."
    elif not found:
        found = f" There are: {_listed(client.name for client in known)}."
    raise click.ClickException(f"There is no client {name_or_id}.{found}")


def nearest(given: str, names: Iterable[str]) -> str:
    """Return a sentence that asks whether the name nearest to `given` was meant; empty when none is near."""
    by_folded = {name.casefold(): name for name in names}
    found = get_close_matches(given.casefold(), by_folded, n=1, cutoff=0.5)
    return f" Did you mean {by_folded[found[0]]}?" if found else ""


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _MOST_NAMED
    return ", ".join(listed[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
