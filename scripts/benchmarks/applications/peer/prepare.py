"""Creates the tables and, for each client, a key and an account with money; prints the keys and gateway paths."""

from __future__ import annotations

import json
import secrets
import sys
from typing import Any

from benchmarks.applications.peer import models
from benchmarks.applications.peer.app import app
from benchmarks.applications.peer.common import digest
from benchmarks.load.requests import CHANNELS, CODE, places_menu

_FUNDS_CENTS = 10**12


def main() -> None:
    """Fill the database and print the keys and gateway paths as JSON."""
    with models.database.atomic(), app.app_context():
        models.database.create_tables(models.MODELS)
        clients = [{"id": models.uuid.uuid4(), "name": f"client {place}"} for place in range(int(sys.argv[1]))]
        _insert(models.Client, clients)
        names = {"main": _FUNDS_CENTS, "provider:sandbox": 0}
        accounts = [
            {"client": client["id"], "name": name, "balance_cents": cents}
            for client in clients
            for name, cents in names.items()
        ]
        _insert(models.Account, accounts)
        keys = [(secrets.token_hex(11), secrets.token_urlsafe(32)) for _ in clients]
        rows = [
            {"client": client["id"], "apikey": apikey, "secret_digest": digest(secret)}
            for client, (apikey, secret) in zip(clients, keys, strict=True)
        ]
        _insert(models.ApiKey, rows)
        owner = models.Client.create(name="owner")
        models.Menu.create(client=owner, code=CODE, document=places_menu())
        paths = [secrets.token_urlsafe(32) for _ in range(CHANNELS)]
        for path in paths:
            models.Channel.create(client=owner, secret_digest=digest(path))
    models.database.execute_sql("ANALYZE")
    print(json.dumps({"keys": keys, "gateway_paths": [f"/ussd/africastalking/{path}" for path in paths]}))


def _insert(table: Any, rows: list[dict[str, Any]]) -> None:
    for first in range(0, len(rows), 500):
        table.insert_many(rows[first : first + 500]).execute()


if __name__ == "__main__":
    main()
