"""Keys explained: what would happen to a call now, and why; and whom the log of a refused call names."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from flask.testing import FlaskClient

from tests.conftest import MovableClock
from tests.support.money import operator
from tests.support.program import Program
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.logs import GatheredLines
from ussd_server.security.credentials import new_apikey
from ussd_server.services.clients.keys.messages import CreateApiKey, KeyExplanation


def explained(services: Services, key: str) -> KeyExplanation:
    return services.key_explanations.explain(key, operator())


def test_every_answer_is_what_a_call_gets(services: Services, web: FlaskClient, clock: MovableClock) -> None:
    program = Program(services, web)
    client = services.clients.find(program.client_id, operator()).name
    (key,) = services.api_keys.list(program.call)
    apikey = program.headers["x-api-key"]

    def answer(name: str = apikey) -> str:
        found = explained(services, name)
        assert found.sentence.endswith((".", key.id))
        return found.answer.value

    assert (answer(), program.get("/api/balance").status_code) == ("accepted", 200)
    assert "99 calls this minute and 999 calls this hour" in explained(services, key.id).sentence
    assert answer(new_apikey()) == answer("0190b1a2-0000-7000-8000-000000000001") == answer("importedkey1") == "unknown"
    assert answer(apikey[:-1] + ("a" if apikey[-1] != "a" else "b")) == answer("no key!") == "mistyped"

    services.api_keys.set_active(key.id, False, operator())
    assert (answer(), program.get("/api/balance").status_code) == ("disabled", 403)
    assert (explained(services, apikey).by, explained(services, apikey).client) == ("operator", client)
    services.api_keys.set_active(key.id, True, operator())

    services.clients.set_active(program.client_id, False, operator())
    assert (answer(), program.get("/api/balance").status_code) == ("client_disabled", 403)
    assert explained(services, apikey).by == "operator"
    services.clients.set_active(program.client_id, True, operator())

    for _ in range(99):
        assert program.get("/api/balance").status_code == 200
    assert (answer(), program.get("/api/balance").status_code) == ("over_limit", 429)
    over = explained(services, apikey)
    assert over.until is not None
    assert timedelta(0) < over.until - clock.now() <= timedelta(seconds=61)
    assert "100 calls a minute" in over.sentence

    soon = clock.now() + timedelta(seconds=5)
    expiring = services.api_keys.create(CreateApiKey(None, soon), program.call)
    clock.advance(6)
    assert explained(services, expiring.id).answer == "expired"

    services.api_keys.delete(key.id, operator_context(program.client_id))
    assert (answer(), answer(key.id), program.get("/api/balance").status_code) == ("deleted", "deleted", 401)
    deleted = explained(services, apikey)
    assert (deleted.by, deleted.client) == ("operator", client)
    assert deleted.since is not None
    assert explained(services, key.id) == deleted


def test_the_log_of_a_refused_call_names_its_key_and_client(
    services: Services, web: FlaskClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = GatheredLines(StringIO())
    monkeypatch.setattr("ussd_server.logs.call_lines", lines)
    program = Program(services, web, "balance:read")
    (key,) = services.api_keys.list(program.call)

    def logged() -> tuple[str, str | None, str | None]:
        lines.flush()
        line = json.loads(lines.stream.getvalue().splitlines()[-1])
        return line["code"], line["key_id"], line["client_id"]

    known = (key.id, program.client_id)
    web.get("/api/balance", headers=program.headers | {"x-api-secret": "wrong"})
    assert logged() == ("INVALID_CREDENTIALS", *known)
    program.get("/api/transactions")
    assert logged() == ("INSUFFICIENT_SCOPE", *known)
    web.get("/api/balance", headers=program.headers | {"x-api-key": new_apikey()})
    assert logged() == ("INVALID_CREDENTIALS", None, None)
    for _ in range(100):
        program.get("/api/balance")
    assert logged() == ("RATE_LIMIT_EXCEEDED", *known)
    services.api_keys.set_active(key.id, False, operator())
    program.get("/api/balance")
    assert logged() == ("API_KEY_DISABLED", *known)
