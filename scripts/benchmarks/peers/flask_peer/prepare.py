"""Makes the tables and, for each of so many clients, a key and an account with money; prints who may call."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

from benchmarks.peers import common
from benchmarks.peers.flask_peer import models
from benchmarks.peers.flask_peer.app import app
from benchmarks.peers.flask_peer.keys import seal, token_for
from benchmarks.switchboard import CALLERS, menu_of

_KEYS_LISTED, _LOGINS = 1000, 20
_FUNDS_CENTS = 10**12
_NODES = 100


def main() -> None:
    """Do it in one go."""
    with models.database.atomic(), app.app_context():
        models.database.create_tables(models.MODELS)
        clients = [{"id": models.uuid.uuid4(), "name": f"client {place}"} for place in range(int(sys.argv[1]))]
        _insert(models.Client, clients)
        client_ids = [client["id"] for client in clients]
        _insert(
            models.Account,
            [{"client": client_id, "name": "main", "balance_cents": _FUNDS_CENTS} for client_id in client_ids]
            + [{"client": client_id, "name": "provider:sandbox"} for client_id in client_ids],
        )
        pairs = _add_keys(client_ids)
        owner = models.Client.create(name="owner")
        _add_keys([owner.id] * _KEYS_LISTED)
        logins = [
            models.Login.create(client=owner, expires_at=models.now() + timedelta(days=1)) for _ in range(_LOGINS)
        ]
        models.Menu.create(client=owner, code=f"*{_NODES}#", document=menu_of(_NODES))
        secrets = [common.new_secret() for _ in range(CALLERS)]
        for secret in secrets:
            models.Channel.create(client=owner, secret_digest=common.digest(secret))
    models.database.execute_sql("ANALYZE")
    made = {
        "keys": pairs, "tokens": [token_for(login) for login in logins],
        "gateway_paths": [f"/ussd/africastalking/{secret}" for secret in secrets],
    }  # fmt: skip
    print(json.dumps(made))


def _add_keys(client_ids: list[Any]) -> list[tuple[str, str]]:
    pairs = [(common.new_apikey(), common.new_secret()) for _ in client_ids]
    rows = [
        {"client": client_id, "apikey": apikey, "secret_digest": common.digest(secret), "secret_sealed": seal(secret)}
        for client_id, (apikey, secret) in zip(client_ids, pairs, strict=True)
    ]
    _insert(models.ApiKey, rows)
    return pairs


def _insert(table: Any, rows: list[dict[str, Any]]) -> None:
    for first in range(0, len(rows), 500):
        table.insert_many(rows[first : first + 500]).execute()


if __name__ == "__main__":
    main()
