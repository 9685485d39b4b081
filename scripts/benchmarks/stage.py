"""What `calls` and `costs` start: PostgreSQL, Valkey, the load generator and applications, with their data."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.applications.web import Web, serve
from benchmarks.load.generator import Generator, Load, Outcome, start_generator
from benchmarks.load.requests import CHANNELS, CODE, Key, places_menu
from benchmarks.services import opened_services
from testbed.postgres import create_database, temporary_server
from testbed.valkey import Server as Valkey
from ussd_server.bootstrap import Services
from ussd_server.context import APPROVE, operator_context
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.keys import ApiKey
from ussd_server.security.credentials import new_apikey, new_apisecret
from ussd_server.security.key_ring import Keyring, Vault
from ussd_server.services.menus.messages import AssignCode, BindCode, SaveDraft
from ussd_server.services.transactions.messages import CreateDeposit
from ussd_server.services.ussd.messages import CreateChannel
from ussd_server.values import new_id

PURPOSES = ("authenticated", "refused", "balance", "disbursement", "spent", "approval")
_FUNDS_CENTS = 10**12
_ROWS_AT_ONCE = 500
_LOG_LINES_SHOWN = 30


@dataclass(frozen=True, slots=True)
class Stage:
    """The applications by name, and what they are called with; see `start_stage`."""

    webs: dict[str, Web]
    generator: Generator
    keys: dict[str, list[Key]]  # by purpose
    gateway_paths: list[str]
    servers: dict[str, int]  # the process of each other server
    home: Path  # the service's
    settings: dict[str, str]  # the service's

    def processes(self, application: str) -> dict[str, int]:
        """Return the processes that work for a call of an application, by kind."""
        return {"web": self.webs[application].pid, **self.servers, "generator": self.generator.pid}

    def run(self, application: str, load: Load) -> Outcome:
        """Send a load. Raises RuntimeError, with the end of the application's log, on the first wrong reply."""
        try:
            return self.generator.run(load)
        except RuntimeError as error:
            lines = [
                line for line in self.webs[application].log.read_text().splitlines() if '"event":"call"' not in line
            ]
            error.add_note("\n".join(lines[-_LOG_LINES_SHOWN:]))
            raise


@contextmanager
def start_stage(clients: int, applications: Collection[str] = ("stock", "bare", "service")) -> Iterator[Stage]:
    """Start all servers, with so many clients in each database; everything ends with the block.

    `applications` are "service" and any of "stock" and "bare", the bare application under stock gunicorn and under our
    worker.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)))
        homes = {name: folder / name for name in ("valkey", *applications)}
        for home in homes.values():
            home.mkdir()
        # Before any other thread or server of this process.
        generator = stack.enter_context(start_generator())
        postgres = stack.enter_context(temporary_server(is_durable=True))
        valkey = Valkey(homes["valkey"])
        stack.callback(valkey.stop)
        settings = {
            "USSD_DATABASE_URL": create_database(postgres.url),
            "USSD_REDIS_URL": valkey.url,
            "USSD_TRUSTED_PROXIES": "1",
        }
        with opened_services(homes["service"], settings) as services:
            keys = _fill(services, clients)
            gateway_paths = _add_menu(services)
        webs: dict[str, Web] = {}
        # The settings decide which worker gunicorn uses: the bare application gets the same ones.
        for name in {"stock", "bare"} & set(applications):
            bare = serve("benchmarks.applications.bare:app", homes[name], settings, is_stock=name == "stock")
            webs[name] = stack.enter_context(bare)
        service = serve("benchmarks.applications.service_app:app", homes["service"], settings)
        webs["service"] = stack.enter_context(service)
        servers = {"postgres": postgres.process.pid, "valkey": valkey.pid}
        yield Stage(webs, generator, keys, gateway_paths, servers, homes["service"], settings)


def _fill(services: Services, clients: int) -> dict[str, list[Key]]:
    """Make clients with money and a key for each purpose, straight in the tables, where the API would take minutes."""
    now, vault = services.clock.now(), Vault(Keyring(services.settings.secrets_file))
    moments = {"is_active": True, "created_at": now, "updated_at": now}
    client_ids = [new_id(now) for _ in range(clients)]
    _insert(Client, [{"id": client_id, "name": client_id, **moments} for client_id in client_ids])
    keys: dict[str, list[Key]] = {}
    for purpose in PURPOSES:
        # A key with all scopes approves no payout.
        scopes = APPROVE if purpose == "approval" else None
        keys[purpose] = [Key(new_apikey(), new_apisecret()) for _ in client_ids]
        rows = []
        for client_id, key in zip(client_ids, keys[purpose], strict=True):
            key_id = new_id(now)
            kept = vault.keep(key.secret, None, client_id, key_id)
            bounds = {"scopes": scopes, "bounds_set_by": {}}
            rows.append({"id": key_id, "client_id": client_id, "apikey": key.apikey, **kept, **bounds, **moments})
        _insert(ApiKey, rows)
    for client_id in client_ids:
        services.deposits.create(CreateDeposit(client_id, _FUNDS_CENTS, "funds"), operator_context())
    return keys


def _add_menu(services: Services) -> list[str]:
    """Publish the menu for the first client; give the gateway paths of its channels."""
    client_id = str(Client.select(Client.id).first().id)
    context = operator_context(client_id)
    services.menus.save_draft(SaveDraft("places", places_menu()), context)
    services.menus.publish("places", context)
    services.channels.assign_code(AssignCode(CODE, client_id), context)
    services.menus.bind_code(BindCode(CODE, "places"), context)
    # One channel would reach the limit of a gateway.
    channel = CreateChannel("africastalking", client_id)
    return [services.channels.create(channel, context).gateway_path for _ in range(CHANNELS)]


def _insert(table: Any, rows: list[dict[str, Any]]) -> None:
    with unit_of_work():
        for first in range(0, len(rows), _ROWS_AT_ONCE):
            table.insert_many(rows[first : first + _ROWS_AT_ONCE]).execute()
