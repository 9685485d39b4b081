"""`smpp`: USSD steps per second over SMPP, beside the same menu over HTTP, with one process of each."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.applications.web import environment, serve
from benchmarks.load.generator import Call, Load, Outcome, start_generator
from benchmarks.load.requests import CHANNELS, CODE, places_menu, sessions
from benchmarks.load.smsc import PASSWORD, LoadSmsc
from benchmarks.report import Size, print_table, ratios, spread
from benchmarks.services import opened_services
from testbed.postgres import create_database, temporary_server
from testbed.valkey import Server as Valkey
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.clients import Client
from ussd_server.services.menus.messages import AssignCode, BindCode, SaveDraft
from ussd_server.services.ussd.messages import CreateChannel, SmppOptions
from ussd_server.values import new_id

PHONES = 32
_BINDS, _WINDOW = 2, 100
_STEPS_PER_SECOND = 8000


def measure_smpp(size: Size) -> dict[str, Any]:
    """Let phones walk a menu over both gateways in turn; return steps per second and latencies."""
    seen: dict[str, list[Outcome]] = {"HTTP gateway, one web process": [], "SMPP, one process": []}
    over_http, over_smpp = seen.values()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)))
        # Before any other thread or server of this process.
        generator = stack.enter_context(start_generator())
        postgres = stack.enter_context(temporary_server(is_durable=True))
        valkey = Valkey(folder)
        stack.callback(valkey.stop)
        settings = {"USSD_DATABASE_URL": create_database(postgres.url), "USSD_REDIS_URL": f"{valkey.url}?db=0"}

        async def measure() -> None:
            async with LoadSmsc.listening() as smsc:
                with opened_services(folder, settings) as services:
                    paths = _add_channels(services, smsc.port)
                web = stack.enter_context(serve("benchmarks.applications.service_app:app", folder, settings, workers=1))
                with _smpp_process(folder, settings):
                    await smsc.bound.wait()
                    # The first round warms up.
                    for number in range(1 + size.rounds):
                        loaded = await smsc.load(PHONES, size.seconds)
                        scripts = _scripts(paths, size.seconds)
                        answered = generator.run(Load(web.port, scripts, size.seconds, PHONES))
                        if number:
                            over_smpp.append(loaded)
                            over_http.append(answered)

        asyncio.run(measure())
    http_rates = [each.per_second for each in over_http]
    rows = [
        {
            "step": name,
            "per_second": spread(each.per_second for each in outcomes),
            "p50_ms": spread(each.p50_ms for each in outcomes),
            "p99_ms": spread(each.p99_ms for each in outcomes),
            "to_http": ratios([each.per_second for each in outcomes], http_rates),
        }
        for name, outcomes in seen.items()
    ]
    print_table(f"USSD steps of {PHONES} phones", rows)
    return {"smpp": rows}


def _add_channels(services: Services, port: int) -> list[str]:
    """Publish the menu; make a channel to the operator's side, and return the paths of channels over HTTP."""
    now = services.clock.now()
    client_id = new_id(now)
    Client.create(id=client_id, name="bench", is_active=True, created_at=now, updated_at=now)
    context = operator_context(client_id)
    services.menus.save_draft(SaveDraft("places", places_menu()), context)
    services.menus.publish("places", context)
    services.channels.assign_code(AssignCode(CODE, client_id), context)
    services.menus.bind_code(BindCode(CODE, "places"), context)
    options = SmppOptions(f"smpp://127.0.0.1:{port}", "bench", PASSWORD, binds=_BINDS, window=_WINDOW)
    services.channels.create(CreateChannel("smpp", client_id, smpp=options), context)
    channel = CreateChannel("africastalking", client_id)
    return [services.channels.create(channel, context).gateway_path for _ in range(CHANNELS)]


def _scripts(paths: list[str], seconds: float) -> list[list[Call]]:
    each = int(2 * seconds * _STEPS_PER_SECOND / PHONES)
    return [list(itertools.islice(sessions(path), each)) for path in paths[:PHONES]]


@contextmanager
def _smpp_process(folder: Path, settings: dict[str, str]) -> Iterator[None]:
    with (folder / "smpp.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ussd_server.cli", "smpp"],
            env=environment(folder, settings),
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)
