"""`menu`: check, try and publish menu documents from files."""

from __future__ import annotations

import base64
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.align import Align
from rich.box import HEAVY
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ussd_server.cli import services
from ussd_server.cli.clients.channels import among_menus, confirm_taking, yes_option
from ussd_server.cli.commands import group, show, show_lines, wants_json
from ussd_server.cli.names import client_named, client_option, context_of, file_argument
from ussd_server.context import operator_context
from ussd_server.menus.checks.check import check as check_document
from ussd_server.menus.checks.width_proof import fullest_screens
from ussd_server.menus.document.bounds import WorkBudget
from ussd_server.menus.document.document import Document, read
from ussd_server.menus.document.findings import Finding, Report
from ussd_server.menus.source.texts import read_menu_file
from ussd_server.menus.source.yaml_text import Places, write_yaml
from ussd_server.menus.tools.diagram import Graph, draw, graph
from ussd_server.menus.tools.scripts import play, read_script
from ussd_server.services.menus.messages import AssignCode, BindCode, CheckReport, RollBack, SaveDraft
from ussd_server.values import counted
from ussd_server.wire import writer

_SCREEN_COLUMNS = 30


@group()
def menu() -> None:
    """Menu documents in YAML or JSON files."""


@menu.command(example="shop.yaml")
@file_argument
def check(file: Path) -> None:
    """Check the menu in FILE; exit code 1 when it has errors, which block publishing."""
    raw, places = _load_with_places(file)
    report = check_document(raw, allow_plain_http=True, places=lambda: places)
    document, _ = read(raw)
    if wants_json():
        machine_report = CheckReport(document.id, report.passes, report.errors, report.warnings)
        show(writer(CheckReport)(machine_report), "")
    else:
        _print_report(report, document)
    sys.exit(0 if report.passes else 1)


@menu.command(example="shop.yaml")
@file_argument
def script(file: Path) -> None:
    """Run the scripts in FILE against its menu; exit code 1 when one fails."""
    document, problems = read(load(file))
    if problems:
        raise click.ClickException(f"{problems[0].node or 'document'}: {problems[0].message}")
    results = [_play(document, raw, number) for number, raw in enumerate(document.scripts, start=1)]
    lines = [f"{'failed' if result['problems'] else 'passed'}  {result['name']}" for result in results]
    lines += [f"        {problem}" for result in results for problem in result["problems"]]
    show_lines({"scripts": results}, lines, "The menu has no scripts.")
    sys.exit(1 if any(result["problems"] for result in results) else 0)


@menu.command(name="graph", example="shop.yaml > shop.svg")
@file_argument
def show_graph(file: Path) -> None:
    """Draw the menu in FILE as SVG; with --json, print its nodes and edges."""
    document, _ = read(load(file))
    show(writer(Graph)(graph(document)), draw(document))


@menu.command(name="list", example="--client acme")
@click.option("--client", metavar="CLIENT", help="Only the menus of this client (name or id).")
def list_menus(client: str | None) -> None:
    """List the menus of all clients, with their published versions and codes."""
    operator = operator_context()
    clients = services().clients
    owners = clients.list(operator) if client is None else (client_named(client),)
    menus = [
        {"client": owner.name, **asdict(each)}
        for owner in owners
        for each in services().menus.list(operator_context(owner.client_id))
    ]
    lines = [_summary(each) for each in menus]
    show_lines(menus, lines, "There are no menus.")


@menu.command(name="show", example="shop --client acme > shop.yaml")
@click.argument("menu_id", metavar="MENU")
@client_option
@click.option("--draft", is_flag=True, help="Show the draft instead of the published version.")
def show_menu(menu_id: str, client: str, draft: bool) -> None:
    """Print the published document of MENU as YAML; its draft, when it was never published."""
    owner = client_named(client)
    context = operator_context(owner.client_id)
    with among_menus(menu_id, context):
        menu = services().menus.get(menu_id, context)
    document = menu.draft if draft or menu.published is None else menu.published
    show({"client": owner.name, **asdict(menu)}, write_yaml(document).rstrip("\n"))


@menu.command(example="shop.yaml --client acme --code '*384*123#'")
@file_argument
@client_option
@click.option("--code", metavar="CODE", help="Assign this code to the client, and bind it to the menu.")
@yes_option
def publish(file: Path, client: str, code: str | None, yes: bool) -> None:
    """Publish the menu in FILE for a client."""
    raw = load(file)
    menu_id = str(raw.get("id") or file.stem)
    context = context_of(client)
    if code:
        service_code = services().channels.assign_code(AssignCode(code, context.client_id), context)
        confirm_taking(service_code, menu_id, yes=yes)
    services().menus.save_draft(SaveDraft(menu_id, raw), context)
    version = services().menus.publish(menu_id, context)
    if code:
        services().menus.bind_code(BindCode(code, menu_id), context)
    show(version, f"Version {version.version} of {version.menu_id} is in force.")


@menu.command(example="shop --client acme --reason 'The bill asks twice'")
@click.argument("menu_id", metavar="MENU")
@client_option
@click.option("--version", type=click.IntRange(1), help="A published version. Default: the one before.")
@click.option("--reason", required=True, help="Why, in at most 200 characters.")
def rollback(menu_id: str, client: str, version: int | None, reason: str) -> None:
    """Put an earlier version of MENU in force again, for new sessions. The draft stays."""
    context = context_of(client)
    with among_menus(menu_id, context):
        versions = services().menus.versions(menu_id, context)
    current = next((each.version for each in versions if each.in_force), 0)
    wanted = version or max((each.version for each in versions if each.version < current), default=None)
    if wanted is None:
        raise click.ClickException(f"{menu_id} has no version before the one in force.")
    rolled = services().menus.roll_back(RollBack(menu_id, wanted, reason), context)
    show(rolled, f"Version {rolled.version} of {menu_id} is in force.")


@menu.command(example="--client acme")
@client_option
def secret(client: str) -> None:
    """Show the secret that signs the calls of `http` and `handover` nodes (Standard Webhooks)."""
    owner = client_named(client)
    key = services().menus.call_secrets(operator_context(owner.client_id))[0]
    written = f"whsec_{base64.b64encode(key).decode()}"
    show({"client_id": owner.client_id, "secret": written}, written)


def load(file: Path) -> dict[str, Any]:
    """Read a menu file. Raises ClickException with one sentence when it cannot be read."""
    return _load_with_places(file)[0]


def _load_with_places(file: Path) -> tuple[dict[str, Any], Places]:
    try:
        return read_menu_file(file)
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None


def _play(document: Document, raw: Any, number: int) -> dict[str, Any]:
    script, findings = read_script(document, raw, number)
    findings = [*findings, *(play(document, script) if script is not None else ())]
    name = script.name if script is not None else f"script {number}"
    return {"name": name, "problems": [finding.message for finding in findings]}


def _summary(menu: dict[str, Any]) -> str:
    version = f"version {menu['published_version']}" if menu["published_version"] else "draft only"
    return "  ".join([menu["client"], menu["menu_id"], version, ", ".join(menu["codes"]), menu["title"]]).rstrip()


def _print_report(report: Report, document: Document) -> None:
    console = Console(highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_column()
    table.add_column(overflow="fold")
    for finding in report.findings:
        colour = "red" if finding.severity == "error" else "yellow"
        table.add_row(Text(finding.severity, colour), Text(f"{finding.node or 'document'}: {finding.message}"))
    console.print(table)
    worst = max((each for each in report.findings if each.screen), key=_excess, default=None)
    if worst is not None and worst.screen is not None and worst.excess is not None:
        budget = document.budget_for(worst.network or "")
        limit = budget.septets if worst.unit == "septets" else budget.characters
        caption = f"{worst.node}, {worst.language}"
        phone = draw_phone(worst.screen, caption, budget=limit, used=limit + worst.excess, unit=worst.unit or "septets")
        console.print("\nThe worst screen:", phone)
    elif report.passes:
        console.print(f"{document.id} may be published: every screen fits.")
        common = [each for each in fullest_screens(document, WorkBudget()) if each.network is None]
        for each in [max(common, key=lambda each: each.share)] if common else []:
            caption = f"{each.node}, {each.language}"
            phone = draw_phone(each.text, caption, budget=each.limit, used=each.used, unit=each.unit)
            console.print("The fullest one:", phone)
    console.print(f"{counted(len(report.errors), 'error')}, {counted(len(report.warnings), 'warning')}")


def _excess(finding: Finding) -> int:
    return finding.excess or 0


def draw_phone(screen: str, caption: str, *, budget: int, used: int, unit: str = "septets") -> RenderableType:
    """Draw a phone that shows `screen`, with `caption` and the used part of the budget, in `unit`, below it."""
    display = Panel(Text(screen), width=_SCREEN_COLUMNS, box=HEAVY, style="black on green")
    colour = "red" if used > budget else "dim"
    measure = Text(f"{used} of {budget} {unit}", style=colour, justify="center")
    keys = Text("1 2 3\n4 5 6\n7 8 9\n* 0 #", style="bold", justify="center")
    body = Group(display, Align.center(measure), Align.center(Text(caption, style="dim")), Align.center(keys))
    return Panel(body, width=_SCREEN_COLUMNS + 4)
