"""`providers` and `callbacks`: the state of providers, the operator's switch, and where they call back."""

from __future__ import annotations

import click

from ussd_server.cli import services
from ussd_server.cli.commands import command, group, show, show_lines
from ussd_server.cli.money.trial import try_
from ussd_server.cli.names import two_people
from ussd_server.context import operator_context
from ussd_server.services.providers.messages import AdoptPlace, OperatorProviderState, SwitchProvider, written_places
from ussd_server.values import counted, written_amount
from ussd_server.wire import writer

_NO_CALLBACKS = (
    "In the settings of this shell, no provider is switched on. On an installed server `ussd callbacks` has the "
    "settings of the service; docs/guides/mtn.md and docs/guides/airtel.md list those of a provider."
)


_write = writer(OperatorProviderState)


@group(invoke_without_command=True, has_json=True)
@click.pass_context
def providers(context: click.Context) -> None:
    """Show the providers: state, float, limits, success and last error of the last 15 minutes."""
    if context.invoked_subcommand is not None:
        return
    states = services().provider_states.list(operator_context())
    items = {"items": [_write(state) for state in states]}
    show_lines(items, map(_lines, states), "No provider is set up.")


@providers.command(example="mtn --reason 'MTN is under maintenance until 14:00'")
@click.argument("name", type=str.lower)
@click.option("--reason", required=True, help="Why; clients read it.")
def off(name: str, reason: str) -> None:
    """Refuse new payments by connection NAME. Payments that exist already are still asked about."""
    _switch(SwitchProvider(name, True, reason))


@providers.command(example="mtn --reason 'MTN is back'")
@click.argument("name", type=str.lower)
@click.option("--reason", required=True, help="Why.")
def on(name: str, reason: str) -> None:
    """Take new payments by connection NAME again."""
    _switch(SwitchProvider(name, False, reason))


@providers.command(example="'https://old.example:443 mtnuganda 9f0f1a53' mtn --reason 'Renamed' --by Ann --and Bob")
@click.argument("old")
@click.argument("new")
@click.option("--reason", required=True, help="Why both are one, in at most 200 characters.")
@two_people()
def adopt(old: str, new: str, reason: str, by: str, second: str) -> None:
    """Say that the place OLD is that of connection NEW now, as after a change of its name. Two people must agree.

    OLD is what this command group shows of payments that wait. They are queried at NEW, and sent again there where it
    does not find them: if OLD is another place, they are paid twice.
    """
    adopted = services().provider_states.adopt(AdoptPlace(old, new, reason, by, second), operator_context())
    show(adopted, f"Payments that belong to {adopted.connection} now: {adopted.payment_count}.")


providers.add_command(try_)


def _switch(request: SwitchProvider) -> None:
    state = services().provider_states.switch(request, operator_context())
    show(_write(state), _lines(state))


def _lines(state: OperatorProviderState) -> str:
    rate = f"none of {counted(state.call_count, 'call')} went through" if state.call_count else "no calls"
    if state.success_rate is not None:
        rate = f"{state.success_rate:.1%} of answered calls went well"
    money = "not known" if state.float_amount_cents is None else written_amount(state.float_amount_cents)
    when = f" at {state.float_at:%Y-%m-%d %H:%M:%S} UTC" if state.float_at else ""
    if state.float_low_since:
        when += f", low since {state.float_low_since:%Y-%m-%d %H:%M:%S} UTC"
    lines = [
        f"{state.connection:<8}  {state.status:<12}  {state.message}{_belongs(state)}",
        f"          {rate}, median {state.median_seconds or 0} s; float {money}{when}",
    ]
    for name, bounds in (("collections", state.collections), ("disbursements", state.disbursements)):
        least, most = written_amount(bounds.min_amount_cents), written_amount(bounds.max_amount_cents)
        lines.append(f"          {name}: " + (f"{least} to {most}" if bounds.enabled else "not set up"))
    if state.waiting_elsewhere:
        lines.append(f"          waiting: {written_places(state.waiting_elsewhere)}, which the settings no longer have")
    if state.last_error_at:
        lines.append(f"          last error at {state.last_error_at:%Y-%m-%d %H:%M:%S} UTC: {state.last_error}")
    return "\n".join(lines)


def _belongs(state: OperatorProviderState) -> str:
    """What else tells a connection from others: its account, where that is called otherwise, and its client."""
    account = f" Account {state.account}." if state.account != state.connection else ""
    return f"{account} For {state.client} alone." if state.client else account


@command()
@click.option("--show-secrets", "shows_secrets", is_flag=True, help="Show also what incoming payments need.")
def callbacks(shows_secrets: bool) -> None:
    """Print the callback address of each provider, and of the sender of messages; each is a credential.

    With --show-secrets also the path at which it checks and reports payments that payers make by themselves, and the
    Standard Webhooks secret with which it signs its reports.
    """
    base_url = services().settings.public_url or ""
    views = [*services().callbacks.paths(operator_context()), *services().sms_reports.paths(operator_context())]
    paths = {each.provider: each.path for each in views}
    incoming = services().notices.paths(operator_context()) if shows_secrets else []
    listed: dict[str, dict[str, str | None]] = {
        provider: {"provider": provider, "path": path, "url": f"{base_url}{path}" if base_url else None}
        for provider, path in paths.items()
    }
    lines = [f"{provider:<14}  {base_url}{path}" for provider, path in paths.items()]
    for each in incoming:
        listed.setdefault(each.account, {"provider": each.account, "path": None, "url": None})
        listed[each.account] |= {"incoming_path": each.path, "incoming_secret": each.secret}
        lines += [f"{each.account:<14}  {base_url}{each.path}", f"{each.account:<14}  signed with {each.secret}"]
    if not base_url and lines:
        lines.append("Prefix each path with your public address, or set USSD_PUBLIC_URL.")
    show_lines(list(listed.values()), lines, _NO_CALLBACKS)
