"""The pages of API keys."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta

from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.console.conftest import Visit
from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent
from ussd_server.models.keys import ApiKey
from ussd_server.services.clients.keys.messages import CreateApiKey
from ussd_server.values import iso_milliseconds


def test_an_owner_creates_reveals_rotates_and_deletes_a_key(visit: Visit, services: Services) -> None:
    visitor = visit()
    assert "Make your first API key" in visitor.get("").text
    assert "Choose at least one scope." in visitor.post("/api-keys/new", access="some").text
    past = visitor.post("/api-keys/new", access="some", scopes="ussd:read", expires_at="2020-01-01")
    assert past.status_code == 400
    assert 'value="ussd:read" checked' in past.text
    made = visitor.post("/api-keys/new", access="some", scopes=["ussd:read", "balance:read"], expires_at="2099-12-31")
    assert made.status_code == 303
    path = made.location.removeprefix("/console")
    shown = visitor.get(path).text
    assert "ussd:read balance:read" in shown
    assert "01 Jan 2100, 00:00:00" in shown
    assert 'title="2099-12-31 21:00:00 UTC"' in shown
    (secret,) = set(re.findall(r'data-copy="(ussd_[^"]+|sk_[^"]+|[^"]{40,})"', visitor.post(f"{path}/reveal").text))
    assert secret not in visitor.get(path).text
    assert secret not in visitor.get("/api-keys").text
    assert visitor.post(f"{path}/rotate", grace_period_seconds="7").status_code == 400
    assert visitor.post(f"{path}/rotate", grace_period_seconds="3600").status_code == 303
    rotated = visitor.post(f"{path}/reveal").text
    assert secret not in rotated
    assert "Old secret valid until" in rotated
    assert visitor.post(f"{path}/delete").location == "/console/api-keys"
    assert "Rotate the secret" not in visitor.get(path).text
    actions = {event.action for event in AuditEvent.select()}
    assert {"api_key.created", "api_key.revealed", "api_key.rotated", "api_key.deleted"} <= actions


def test_the_list_is_filtered_by_its_address_and_is_the_same_as_csv_and_json(
    visit: Visit, example_client: ExampleClient, services: Services
) -> None:
    keys = [example_client.create_key() for _ in range(3)]
    secrets = [key.apisecret for key in keys]
    visitor = visit("developer")
    page = visitor.get("/api-keys")
    assert all(key.apikey in page.text for key in keys)
    assert 'name="api_key_ids"' not in page.text
    listed = visitor.get("/api-keys?format=json")
    assert [item["id"] for item in listed.json["items"]] == [key.id for key in reversed(keys)]
    assert listed.json["items"][0]["created_at"] == iso_milliseconds(keys[2].created_at)
    rows = list(csv.DictReader(io.StringIO(visitor.get("/api-keys?format=csv").text)))
    assert [row["id"] for row in rows] == [item["id"] for item in listed.json["items"]]
    assert not any(secret in text for secret in secrets for text in (page.text, listed.text))
    one = visitor.get(f"/api-keys?q={keys[0].apikey}&format=json")
    assert [item["id"] for item in one.json["items"]] == [keys[0].id]
    assert "No match" in visitor.get("/api-keys?state=disabled").text


def test_the_secret_of_a_key_that_sends_money_is_offered_to_owners_and_admins(
    visit: Visit, example_client: ExampleClient, services: Services
) -> None:
    sends = example_client.create_key()
    reads = services.api_keys.create(CreateApiKey(("balance:read",)), example_client.call())
    developer, admin = visit("developer"), visit("admin")
    for key, visitor, is_offered in ((sends, developer, False), (reads, developer, True), (sends, admin, True)):
        page = visitor.get(f"/api-keys/{key.id}").text
        assert (f"/api-keys/{key.id}/reveal" in page) is is_offered
    assert developer.post(f"/api-keys/{sends.id}/reveal").status_code == 403


def test_viewers_see_no_keys_as_in_the_management_api(visit: Visit, example_client: ExampleClient) -> None:
    key = example_client.create_key()
    visitor = visit("viewer")
    assert "/console/api-keys" not in visitor.get("").text
    for path in ("/api-keys", "/api-keys?format=json", f"/api-keys/{key.id}", f"/api-keys/{key.id}/calls"):
        assert visitor.get(path).status_code == 403
    assert visitor.post(f"/api-keys/{key.id}/reveal").status_code == 403
    assert f"/console/api-keys/{key.id}" not in visitor.get(f"/search?q={key.id}").text
    assert f"/console/api-keys/{key.id}" in visit("developer").get(f"/search?q={key.id}", follow_redirects=True).text


def test_a_key_is_named_bound_and_changed_on_its_page(visit: Visit, services: Services) -> None:
    visitor = visit()
    visitor.get("/api-keys/new")
    fields = {"access": "all", "name": "Till <4>", "allowed_addresses": "192.0.2.10\n2001:db8::/32"}
    wrong = visitor.post("/api-keys/new", **fields | {"allowed_addresses": "192.0.2.10/8"}, daily_limit="2,000,000")
    assert wrong.status_code == 400
    assert "Not an address or a network &#39;192.0.2.10/8&#39;" in wrong.text
    assert "Till &lt;4&gt;" in wrong.text
    assert visitor.post("/api-keys/new", **fields, daily_limit="much").status_code == 400
    assert visitor.post("/api-keys/new", **fields | {"name": "x" * 101}).status_code == 400
    made = visitor.post("/api-keys/new", **fields, daily_limit="2,000,000", expires_at="2099-12-31")
    path = made.location.removeprefix("/console")
    shown = visitor.get(path).text
    assert all(text in shown for text in ("Till &lt;4&gt;", "192.0.2.10", "2,000,000", " paid today"))
    assert "by <bdi>you</bdi>" in shown
    assert "Till &lt;4&gt;" in visitor.get("/api-keys?q=till").text
    expires_at = ApiKey.get().expires_at
    ApiKey.update(expires_at=expires_at - timedelta(hours=5)).execute()
    form = visitor.get(f"{path}/edit").text
    assert 'value="2099-12-31"' in form
    fields |= {"access": "some", "scopes": "balance:read", "allowed_addresses": "", "daily_limit": "", "name": "Till 5"}
    assert visitor.post(f"{path}/edit", **fields, expires_at="2099-12-31").status_code == 303
    row = ApiKey.get()
    assert (row.name, row.scopes, row.allowed_addresses, row.daily_limit_cents) == (
        "Till 5",
        "balance:read",
        None,
        None,
    )
    assert row.expires_at == expires_at - timedelta(hours=5), "a day that was not changed changes nothing"
    assert visitor.post(f"{path}/disable").status_code == 303
    page = visitor.get(path).text
    assert "disabled" in page
    assert "Disable the key" not in page
    trail = visitor.get("/audit").text
    assert "Till 5<" in trail
    assert "name, scopes, allowed_addresses, daily_limit" in trail


def test_keys_that_expire_within_a_week_are_on_the_overview(
    visit: Visit, services: Services, example_client: ExampleClient, clock: MovableClock
) -> None:
    for days in (3, 30):
        request = CreateApiKey(expires_at=clock.now() + timedelta(days=days), name=f"Ends in {days}")
        services.api_keys.create(request, example_client.call())
    page = visit("developer").get("").text
    assert "Ends in 3<" in page
    assert "Ends in 30" not in page
    assert "Ends in 3" not in visit("viewer").get("").text


def test_many_keys_are_deleted_at_once(visit: Visit, example_client: ExampleClient) -> None:
    keys = [example_client.create_key() for _ in range(3)]
    visitor = visit("admin")
    visitor.get("/api-keys")
    assert visitor.post("/api-keys/delete").status_code == 303
    assert "No key was deleted" in visitor.get("/api-keys").text
    named = visitor.get(f"/api-keys/chosen?api_key_ids={keys[0].id}&api_key_ids={keys[1].id}").text
    assert [key.apikey in named for key in keys] == [True, True, False]
    assert visitor.get("/api-keys/chosen").status_code == 303
    visitor.post("/api-keys/delete", api_key_ids=[keys[0].id, keys[1].id])
    page = visitor.get("/api-keys").text
    assert "2 of 2 API keys deleted." in page
    assert keys[2].id in page
    assert visit("developer").post("/api-keys/delete", api_key_ids=[keys[2].id]).status_code == 403


def test_another_clients_key_answers_as_a_missing_one(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    foreign = ExampleClient(services, "other").create_key().id
    visitor, missing = visit(), "019e0000-0000-7000-8000-000000000000"
    for path in ("{}", "{}/calls", "{}/edit"):
        assert_same(*(visitor.get(f"/api-keys/{path.format(key)}") for key in (foreign, missing)))
    for action, fields in (("disable", {}), ("reveal", {}), ("rotate", {"grace_period_seconds": "0"}), ("delete", {})):
        assert_same(*(visitor.post(f"/api-keys/{key}/{action}", **fields) for key in (foreign, missing)))


def test_the_calls_of_a_key_refresh_only_when_they_changed(
    visit: Visit, example_client: ExampleClient, services: Services
) -> None:
    key = example_client.create_key()
    visitor = visit("developer")
    path = f"/api-keys/{key.id}/calls"
    first = visitor.get(path, headers={"X-Console-Poll": "new"})
    assert "data-poll" in first.text
    seen = {"X-Console-Poll": first.headers["X-Console-Version"]}
    assert visitor.get(path, headers=seen).status_code == 204
    services.auth.authenticate_key(key.apikey, key.apisecret, "192.0.2.1")
    changed = visitor.get(path, headers=seen)
    assert changed.status_code == 200
    assert re.search(r">1 <span class=\"muted\">of 100<", changed.text)


def test_the_audit_trail_has_pages_with_next_links(
    visit: Visit, example_client: ExampleClient, services: Services
) -> None:
    for _ in range(60):
        services.api_keys.list(example_client.call())
    visitor = visit()
    first = visitor.get("/audit")
    following = re.search(r'rel="next" href="/console(/audit\?cursor=[^"]+)"', first.text)
    assert following
    seen, path = [], "/audit?format=json"
    while path:
        page = visitor.get(path)
        seen += [item["request_id"] + item["created_at"] + item["action"] for item in page.json["items"]]
        link = page.headers.get("Link", "")
        path = link[len("</console") : link.index(">")] if link else ""
    assert len(seen) == AuditEvent.select().count()
    assert visitor.get("/audit?cursor=forged").status_code == 400
    assert visit("viewer").get("/audit").status_code == 403


def assert_same(here: TestResponse, there: TestResponse) -> None:
    """Both replies are 404 and equal, but for the request id and the time in the form's token."""
    texts = [
        re.sub(r'name="csrf_token" value="[^"]+"', "", reply.text.replace(reply.headers["X-Request-Id"], "ID"))
        for reply in (here, there)
    ]
    assert [reply.status_code for reply in (here, there)] == [404, 404]
    assert texts[0] == texts[1]


def test_a_key_that_was_refused_by_its_addresses_says_so_and_leads_to_the_calls(
    visit: Visit, services: Services, example_client: ExampleClient, clock: MovableClock
) -> None:
    key, page = example_client.create_key(), visit("owner")
    assert "does not allow" not in page.get(f"/api-keys/{key.id}").text
    services.runtime.request_recorder.count(
        key.id, clock.now(), "GET /api/balance", 403, "ADDRESS_NOT_ALLOWED", "balance:read", "192.0.2.66"
    )
    services.runtime.request_recorder.write()
    shown = page.get(f"/api-keys/{key.id}").text
    assert "from an address that the key does not allow: 1 in the last 30 days" in shown
    assert f"key_id={key.id}&amp;code=ADDRESS_NOT_ALLOWED" in shown
