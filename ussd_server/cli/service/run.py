"""Commands that run the service: `run`, `worker`, `smpp` and `migrate`."""

from __future__ import annotations

import json
import secrets
import shlex
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import click

from ussd_server.bootstrap import Services
from ussd_server.cli import open_services
from ussd_server.cli.commands import command, progress, show, show_lines, wants_json
from ussd_server.cli.refusals import AWAY, explain
from ussd_server.database.schema import migrate as migrate_database
from ussd_server.database.unit_of_work import DATABASE_ERRORS, reason_of
from ussd_server.demonstration.client import Demonstration, prepare_demonstration
from ussd_server.logs import Logger, log_fatal_errors, log_start
from ussd_server.server import supervisor
from ussd_server.server.embedded_redis import StartError, embedded_redis
from ussd_server.server.processes import NeverStartedError
from ussd_server.server.running import Announcement
from ussd_server.settings import quieten_terminal, read_settings
from ussd_server.smpp_process import SmppProcess
from ussd_server.spans import end_export, export_spans
from ussd_server.worker import Worker

log = Logger(__name__)

_DATABASE_SECONDS = 1.0
# The sandbox's payer who accepts at once.
_SANDBOX_PHONE = "+256770000000"


@command(example="--without-examples")
@click.option("--without-examples", is_flag=True, help="Sandbox: make no example data at the first start.")
@click.option("--verbose", is_flag=True, help="Sandbox: print every line of the log on the terminal.")
def run(without_examples: bool, verbose: bool) -> None:
    """Run the web processes, the background worker and, unless USSD_REDIS_URL is set, a Redis or Valkey.

    The service listens on USSD_BIND (127.0.0.1:8000) and keeps its data in USSD_DATA_DIR (var in this folder).
    In the sandbox the terminal shows warnings and errors; the whole log is in service.log in the data folder.
    """
    settings = read_settings()
    address = supervisor.base_url(settings.bind)
    try:
        with supervisor.claim_data_folder(settings.data_dir), supervisor.listen(settings.bind) as listener:
            settings = settings if verbose else quieten_terminal(settings)
            with embedded_redis(settings) as redis:
                if settings.is_sandbox and not (settings.data_dir / "demo.json").exists():
                    click.echo("The first start makes a database and example data.", err=True)
                with open_services(settings) as services:
                    migrate_database()
                    services.runtime.references.verify()
                    demonstration = (
                        prepare_demonstration(services, address, with_examples=not without_examples)
                        if settings.is_sandbox
                        else None
                    )
                if demonstration:
                    output, welcome = asdict(demonstration), _welcome(demonstration, settings.data_dir)
                else:
                    output, welcome = {"base_url": address}, f"Serving at {address}"
                supervisor.serve(settings, listener, redis, lambda: show(output, welcome))
    except StartError as refusal:
        raise click.ClickException(str(refusal)) from None
    except NeverStartedError as name:
        raise click.ClickException(f"The {name} process does not start; what it wrote stands above.") from None
    if not wants_json():
        click.echo(f"Everything has stopped; the data stays in {settings.data_dir}.")


def _welcome(demonstration: Demonstration, data_dir: Path) -> str:
    """Return the first text of a sandbox: addresses, credentials and commands to paste."""
    here = f"USSD_DATA_DIR={shlex.quote(str(data_dir))} "
    program = str(Path(sys.executable).with_name("ussd-server"))
    login = {"email": demonstration.email, "password": demonstration.password}
    payment = {
        "type": "collection",
        "phone_number": _SANDBOX_PHONE,
        "amount": 5000,
        "reference": f"try-{secrets.token_hex(4)}",
    }
    post = ["curl", "-sS", "-w", r"\n", "-H", "Content-Type: application/json"]
    key = ["-H", f"x-api-key: {demonstration.apikey}", "-H", f"x-api-secret: {demonstration.apisecret}"]
    url = demonstration.base_url
    commands = {
        "Sign in:": shlex.join([*post, f"{url}/api/clients/login", "-d", json.dumps(login)]),
        "Collect 5,000 shillings from a phone, and wait for it:": shlex.join(
            [*post, *key, f"{url}/api/transactions?wait=10", "-d", json.dumps(payment)]
        ),
        "Dial the menu on a phone in this terminal:": here
        + shlex.join([program, "dial", demonstration.service_code, "--phone", _SANDBOX_PHONE]),
        "Print the code with which an operator signs in:": here
        + shlex.join([program, "operators", "code", demonstration.operator_email]),
    }
    facts = {
        "console": f"{url}/console",
        "owner": f"{demonstration.email}  {demonstration.password}",
        "approver": f"{demonstration.approver_email}  {demonstration.approver_password}",
        "viewer": f"{demonstration.viewer_email}  {demonstration.viewer_password}",
        "": "",
        "operators": f"{url}/console/operator/sign-in",
        "first": f"{demonstration.operator_email}  {demonstration.operator_password}",
        "second": f"{demonstration.second_operator_email}  {demonstration.second_operator_password}",
        " ": "",
        "API": f"{url}  described at {url}/docs",
        "client": demonstration.client_id,
        "x-api-key": demonstration.apikey,
        "x-api-secret": demonstration.apisecret,
        "service code": demonstration.service_code,
        "gateway": f"{url}{demonstration.gateway_path}",
        "also in": str(data_dir / "demo.json"),
    }
    lines = ["\nThe service is ready.\n", *(f"  {name:<14}{value}".rstrip() for name, value in facts.items())]
    lines += [f"\n{purpose}\n  {line}" for purpose, line in commands.items()]
    return "\n".join([*lines, "\nCtrl-C stops everything.\n"])


@contextmanager
def _process(name: str) -> Iterator[tuple[Services, threading.Event]]:
    """The services of a process that runs until SIGINT or SIGTERM, and the event that these set."""
    stop = _stop_signal()
    log_fatal_errors()
    with open_services(read_settings()) as services, closing(Announcement(services.settings, name)):
        log_start(name)
        if services.settings.exports_spans:
            export_spans(name)
        _await_database(services, stop)
        yield services, stop
        end_export()
    if wants_json():
        show({"stopped": True}, "")


def _await_database(services: Services, stop: threading.Event) -> None:
    """Verify the database as soon as it answers; return also when `stop` is set.

    A process that ended instead would be started again each second, which takes most of a processor.
    """
    while True:
        try:
            return services.runtime.references.verify()
        except DATABASE_ERRORS as error:
            if explain(error) is not AWAY:
                raise
            log.warning("the process waits for the database", why=reason_of(error))
        if stop.wait(_DATABASE_SECONDS):
            return None


def _stop_signal() -> threading.Event:
    """An event that SIGINT and SIGTERM set from now on."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


@command()
def worker() -> None:
    """Run the background worker until SIGINT or SIGTERM; `run` starts one too."""
    with _process("worker") as (services, stop):
        Worker(services).run(stop)


@command()
def smpp() -> None:
    """Hold the binds of all SMPP channels until SIGINT or SIGTERM. `run` starts no such process."""
    with _process("smpp") as (services, stop):
        services.timekeeper.start()
        SmppProcess(services).run(stop)


@command()
def migrate() -> None:
    """Migrate the database to this version."""
    with open_services(read_settings()), progress():
        applied = migrate_database()
    show_lines({"applied": applied}, applied, "The database was up to date.")
