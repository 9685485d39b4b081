"""`providers try`: the first hour with a live provider, as a command."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click

from ussd_server.cli import services
from ussd_server.cli.commands import command, show
from ussd_server.cli.names import Shillings, TypedNumber
from ussd_server.context import operator_context
from ussd_server.services.trials.messages import TrialReport, TrialStep, TryProvider
from ussd_server.status import ServiceError
from ussd_server.values import iso_milliseconds, written_amount


class NothingTriedError(click.ClickException):
    """A trial that was refused, or not agreed to."""

    exit_code = 2


@command(name="try", example="mtn --phone 0772123456 --report mtn.json --yes")
@click.argument("name")
@click.option("--phone", required=True, type=TypedNumber(), help="The phone of a person who approves and declines.")
@click.option("--amount", type=Shillings(), default="500", show_default=True, help="Shillings of each payment.")
@click.option("--wrong-number", type=TypedNumber(), help="A number that is no wallet. Default: one of zeros.")
@click.option("--report", "path", type=click.Path(dir_okay=False, path_type=Path), help="Write what came, as JSON.")
@click.option("--yes", "is_agreed", is_flag=True, help="Send without asking for the amount.")
@click.pass_context
def try_(
    ctx: click.Context,
    name: str,
    phone: str,
    amount: int,
    wrong_number: str | None,
    path: Path | None,
    is_agreed: bool,
) -> None:
    """Try connection NAME with a phone beside you: balance, name, three small collections, and the money back.

    One collection goes to a wrong number, one is declined and one approved on the phone, and that money goes back. Each
    payment is sent once, and is the operator's own. REPORT has no secret and no full number; simulators answer from it
    (`python -m simulators.replay REPORT`). The exit status is 1 where a step came out otherwise than expected, and 2
    where nothing was tried.
    """
    written = written_amount(amount)
    if not is_agreed:
        typed = click.prompt(f"Real money moves: {written} three times. Type the amount to go on", err=True)
        if typed.replace(",", "").strip() != f"{amount // 100}":
            raise NothingTriedError("Another amount was typed; nothing was tried.")
    request = TryProvider(name, phone, amount, wrong_number)
    try:
        report = services().trials.run(request, operator_context(), lambda sentence: click.echo(sentence, err=True))
    except ServiceError as refusal:
        raise NothingTriedError(str(refusal)) from None
    document = asdict(report) | {"made_at": iso_milliseconds(report.made_at)}
    if path is not None:
        path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    show(document, "\n".join(_lines(report)))
    ctx.exit(0 if report.is_as_expected else 1)


def _lines(report: TrialReport) -> list[str]:
    lines = [line for step in report.steps for line in _step_lines(step)]
    if report.clock_difference_seconds is not None:
        lines.append(f"its clock differs from ours by {report.clock_difference_seconds:g} s")
    if not report.is_as_expected:
        lines.append(f"docs/guides/{report.provider}.md lists the causes of refusals")
    return lines


def _step_lines(step: TrialStep) -> list[str]:
    lines = [f"{'ok   ' if step.ok else 'OTHER'}  {step.step}: expected {step.expected}; came {step.came}"]
    lines.append(f"       {', '.join(f'{each} ms' for each in step.took_ms) or 'no call'}")
    if step.callback_seconds is not None:
        lines.append(f"       its callback came after {step.callback_seconds:g} s")
    for title, texts in (("new fields", step.unknown_fields), ("new codes", step.unknown_codes), ("forms", step.forms)):
        if texts:
            lines.append(f"       {title}: {', '.join(texts)}")
    return lines
