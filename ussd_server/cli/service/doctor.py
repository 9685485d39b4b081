"""`doctor` and `mail`: check this installation and its mail server, and say how to repair it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import click
from peewee import PeeweeException

from ussd_server.cli import services
from ussd_server.cli.commands import command, group, show
from ussd_server.cli.service.doctor_checks import check_installation
from ussd_server.database.dialect import UnsupportedDatabaseError
from ussd_server.database.opening import open_database
from ussd_server.database.schema import missing_migrations
from ussd_server.database.unit_of_work import close_connections, database_now
from ussd_server.logs import configure_logs
from ussd_server.server.running import RunningProcess, running_processes
from ussd_server.services.mail.messages import TROUBLES
from ussd_server.services.operations.book_check.examinations import keep_doctor
from ussd_server.services.operations.messages import DoctorFinding
from ussd_server.settings import Settings, SettingsError, read_settings

_CONNECTIONS = 2


@command()
@click.pass_context
def doctor(context: click.Context) -> None:
    """Check settings, files, database, clock, Redis and providers; exit code 1 when something is wrong.

    Also shows the settings of the service that runs with this data folder, without secrets, and where they differ from
    the settings of this shell.
    """
    findings, running = list[DoctorFinding](), list[RunningProcess]()
    try:
        settings = read_settings(find_data=True)
        configure_logs(settings.log_level, settings.log_file)
        with suppress(PermissionError):
            running = running_processes(settings)
        findings += check_installation(settings, running)
        _keep(settings, findings)
    except SettingsError as problems:
        for problem in str(problems).splitlines():
            name, _, what = problem.partition(": ")
            mend = "Correct it in the environment; deploy/environment.example explains each setting."
            if not name.startswith("USSD_"):
                mend = "docs/recipes.md says what the folder of a provider needs."
            findings.append(DoctorFinding(name, what, mend))
    healthy = all(each.mend is None for each in findings)
    report = {
        "healthy": healthy,
        "findings": [asdict(each) for each in findings],
        "running": [
            {"process": each.process, "pid": each.pid, "started_at": each.started_at, "settings": each.settings}
            for each in running
        ],
    }
    show(report, "\n".join([*map(_lines, findings), *_settings_lines(running)]))
    context.exit(0 if healthy else 1)


def _keep(settings: Settings, findings: Sequence[DoctorFinding]) -> None:
    """Keep the findings for the console, where there is a database that can keep them."""
    kind, _, place = settings.database_url.partition("://")
    if kind == "sqlite" and not Path(place.removeprefix("/")).exists():
        return
    # What is wrong with the database is among the findings already.
    with suppress(PeeweeException, UnsupportedDatabaseError):
        try:
            open_database(settings.database_url, _CONNECTIONS, settings.database_pooler)
            if not missing_migrations():
                keep_doctor(findings, database_now())
        finally:
            close_connections()


def _lines(each: DoctorFinding) -> str:
    if each.mend is None:
        return f"ok     {each.part}: {each.found}"
    return f"WRONG  {each.part}: {each.found}\n       {each.mend}"


def _settings_lines(running: list[RunningProcess]) -> Iterator[str]:
    """Yield the settings of the running processes; those of processes with the same settings once."""
    groups = dict[tuple[tuple[str, str], ...], list[str]]()
    for each in running:
        groups.setdefault(tuple(each.settings.items()), []).append(f"{each.process} ({each.pid})")
    for settings, names in groups.items():
        yield f"\nSettings of {' and '.join(names)}:"
        width = max(len(name) for name, _ in settings)
        yield from (f"  {name:<{width}}  {value}" for name, value in settings)


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
