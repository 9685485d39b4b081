"""Commands that keep the service going: `run`, `worker` and `migrate`."""

from __future__ import annotations

import logging
import signal
import threading

import click

from ussd_server import supervisor
from ussd_server.cli import open_house, show, with_json
from ussd_server.models.schema import migrate as migrate_database
from ussd_server.processes import NeverStartedError
from ussd_server.settings import read_settings
from ussd_server.worker import Worker


@click.command
@with_json
def run(as_json: bool) -> None:
    """Serve: the web processes, the background worker and, unless one is set, a Valkey of its own."""
    settings = read_settings()
    try:
        with supervisor.claim_data_folder(settings.data_dir), supervisor.listen(settings.bind) as listener:
            with open_house(settings):
                migrate_database()
            logging.getLogger("ussd_server").setLevel(settings.log_level)
            address = supervisor.base_url(settings.bind)
            supervisor.serve(
                settings, listener, lambda: show({"base_url": address}, f"Serving at {address}", as_json=as_json)
            )
        show({"stopped": True}, f"Everything has stopped; the data stays in {settings.data_dir}.", as_json=as_json)
    except supervisor.StartError as refusal:
        raise click.ClickException(str(refusal)) from None
    except NeverStartedError as name:
        raise click.ClickException(f"The {name} process does not start; what it wrote stands above.") from None


@click.command
@with_json
def worker(as_json: bool) -> None:
    """Finish what requests began, until a signal says stop; `run` starts one of these."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    with open_house() as services:
        Worker(services).run(stop)
    if as_json:
        show({"stopped": True}, "", as_json=as_json)


@click.command
@with_json
def migrate(as_json: bool) -> None:
    """Bring the database to the shape that this version needs."""
    with open_house():
        applied = migrate_database()
    show({"applied": applied}, "\n".join(applied) or "The database was up to date.", as_json=as_json)
