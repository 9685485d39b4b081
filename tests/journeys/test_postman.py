"""Postman's runner plays the collection of docs/postman.json from top to bottom."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.documents.postman import PAGE as COLLECTION
from tests.support.node_tools import install, run
from tests.support.real_service.service import Service
from ussd_server.security.key_ring import Keyring
from ussd_server.security.tokens import Tokens


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A service whose keys the collection may change."""
    running = Service(tmp_path / "data", USSD_ALLOW_PRIVATE_ADDRESSES="1", USSD_WORKERS="1", USSD_SMS_ADAPTER="sandbox")
    yield running
    running.stop()


def variables_of_the_collection(service: Service) -> dict[str, str]:
    """What the description of the Postman collection asks its user to set."""
    known, tokens = service.demonstration, Tokens(Keyring(service.folder / "secrets.json"))
    return known | {
        "channel_secret": known["gateway_path"].rpartition("/")[2],
        "callback_secret": tokens.callback_path("sandbox").rpartition("/")[2],
        "secret": tokens.incoming_path("sandbox").rpartition("/")[2],
        "signing_secret": tokens.incoming_signing_secrets("sandbox")[-1],
    }


@pytest.mark.needs_node
def test_every_request_of_the_postman_collection_is_accepted_from_top_to_bottom(
    service: Service, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(service.folder / "ussd.db")) as database, database:
        database.execute("INSERT INTO payment_code_prefixes SELECT id, 'DEMO' FROM clients")
    values = [{"key": key, "value": value} for key, value in variables_of_the_collection(service).items()]
    (tmp_path / "environment.json").write_text(json.dumps({"name": "demonstration", "values": values}))
    newman = install(tmp_path, "newman@6.2.2") / "newman"
    run(newman, "run", COLLECTION, "-e", "environment.json", "--color", "off", folder=tmp_path)
