"""The pages of webhooks and events."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

from tests.conftest import MovableClock
from tests.console.clients.test_api_keys import assert_same
from tests.console.conftest import Visit
from tests.services.webhooks.receivers import Receiver, answering, deliver, happen
from tests.support.example_client import ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.console.formats import KAMPALA

MISSING = "019e0000-0000-7000-8000-000000000000"
HOSTILE = "<script>alert(1)</script> שלום 🦒"


def test_a_developer_creates_tests_rotates_and_deletes_a_webhook(
    visit: Visit, services: Services, clock: MovableClock
) -> None:
    visitor = visit("developer")
    assert "No webhook yet" in visitor.get("/webhooks").text
    assert "This sandbox calls your own machine too" in visitor.get("/webhooks/new").text
    refused = visitor.post("/webhooks/new", url="ftp://shop.example/", which="some", types="transaction.failed")
    assert refused.status_code == 400
    assert 'value="transaction.failed" checked' in refused.text
    assert "Choose at least one type" in visitor.post("/webhooks/new", url="https://a.example/", which="some").text
    with Receiver(answering(500), body=HOSTILE.encode()) as receiver:
        made = visitor.post("/webhooks/new", url=receiver.url, which="all").text
        (secret,) = re.findall(r'data-copy="(whsec_[^"]+)"', made)
        (path,) = set(re.findall(r'href="/console(/webhooks/[0-9a-f-]{36})"', made))
        assert secret not in visitor.get(path).text
        assert "Nothing was sent yet" in visitor.get(path).text
        tested = visitor.post(f"{path}/test")
        assert tested.status_code == 303
        event = tested.location.removeprefix("/console")
        assert "On its way" in visitor.get(event).text
        clock.advance(11)
        assert "Not sent to any webhook" in visitor.get(event).text
        deliver(services)
        shown = visitor.get(event).text
        (received,) = receiver.calls
    assert received.is_signed_with(secret)
    assert f"webhook-signature: {received.headers['webhook-signature']}" in shown
    assert received.body.decode() in unescape(shown)
    assert f"curl -sS -X POST {receiver.url} -H" in unescape(shown)
    assert "&lt;script&gt;alert(1)&lt;/script&gt; שלום 🦒" in shown
    assert "<script>alert" not in shown
    page = visitor.get(path).text
    assert "Failing since" in page
    assert f'href="/console{event}"' in page
    listed = visitor.get("/webhooks?format=json").json["items"]
    assert [(one["url"], one["state"]) for one in listed] == [(receiver.url, "failing")]
    assert visitor.post(f"{path}/rotate", grace_period_seconds="7").status_code == 400
    rotated = visitor.post(f"{path}/rotate", grace_period_seconds="3600").text
    assert "The old one signs until" in rotated
    assert len(re.findall(r'data-copy="whsec_', rotated)) == 1
    assert 'data-copy="whsec_' in visitor.post("/webhooks/callbacks/rotate", grace_period_seconds="0").text
    edit = visitor.get(f"{path}/edit").text
    assert f'value="{receiver.url}"' in edit
    assert visitor.post(f"{path}/edit", url="ftp://a.example", which="all").status_code == 400
    url = receiver.url.replace("127.0.0.1", "localhost") + "new"
    changed = visitor.post(f"{path}/edit", url=url, which="some", types="transaction.failed")
    assert changed.location == f"/console{path}"
    (listed,) = visitor.get("/webhooks?format=json").json["items"]
    assert (listed["url"], listed["types"], listed["state"]) == (url, "transaction.failed", "active")
    assert visitor.post(f"{path}/delete").location == "/console/webhooks"
    assert visitor.get(path).status_code == 404
    trail = visit("owner").get("/audit").text
    assert all(f">{did} a webhook" in trail for did in ("created", "gave", "changed", "deleted"))


def test_a_webhook_that_said_gone_is_disabled_with_the_reason_and_enabled_again(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    visitor = visit()
    with Receiver(answering(410)) as receiver:
        visitor.post("/webhooks/new", url=receiver.url, which="all")
        happen(services, example_client.call())
        deliver(services)
    (webhook,) = visitor.get("/webhooks?format=json").json["items"]
    assert (webhook["state"], webhook["disabled_reason"]) == ("disabled", "The receiver answered 410 Gone")
    path = f"/webhooks/{webhook['id']}"
    assert "410 Gone" in visitor.get(path).text
    assert visitor.post(f"{path}/test").status_code == 400
    assert visitor.post(f"{path}/enable").status_code == 303
    assert "Send a test event" in visitor.get(path).text


def test_events_are_filtered_and_a_period_is_redelivered(
    visit: Visit, services: Services, example_client: ExampleClient, clock: MovableClock
) -> None:
    visitor, call = visit(), example_client.call()
    with Receiver() as receiver:
        visitor.post("/webhooks/new", url=receiver.url, which="all")
        first, second = happen(services, call, times=2)
        deliver(services)
        clock.advance(1200)
        (late,) = happen(services, call)
        deliver(services)
        every = visitor.get("/events?format=json").json["items"]
        assert [event["id"] for event in every] == [late, second, first]
        bound = visitor.get(f"/events?from={_kampala(clock, -600)}&format=json")
        assert [event["id"] for event in bound.json["items"]] == [late]
        assert visitor.get("/events?type=webhook.test&format=json").json["items"] == []
        assert visitor.get("/events?from=yesterday").status_code == 400
        assert visitor.get("/events?from=0001-01-01T00:00").status_code in (200, 400)
        period = {"from": _kampala(clock, -1800), "to": _kampala(clock, -600)}
        assert visitor.post("/events/redeliver", **(period | {"to": ""})).status_code == 400
        assert visitor.post("/events/redeliver", type="ussd.session.ended", **period).status_code == 303
        deliver(services)
        assert "Events that are sent again: 2." in visitor.get("/events").text
        assert visitor.post(f"/events/{late}/redeliver").location == f"/console/events/{late}"
        deliver(services)
        assert [call.id for call in receiver.calls] == [first, second, late, first, second, late]
    assert visitor.get(f"/events/{late}", headers={"X-Console-Poll": "new"}).text.count("<h3>Request</h3>") == 2


def test_events_whose_delivery_was_given_up_are_found_and_sent_again_from_the_list(
    visit: Visit, services: Services, example_client: ExampleClient, clock: MovableClock
) -> None:
    visitor, call = visit(), example_client.call()
    (unwanted,) = happen(services, call)
    services.relay.run()
    with Receiver(answering(410, 200)) as receiver:
        visitor.post("/webhooks/new", url=receiver.url, which="all")
        (given_up,) = happen(services, call)
        deliver(services)
        (webhook,) = visitor.get("/webhooks?format=json").json["items"]
        states = {each["id"]: each["delivery"] for each in visitor.get("/events?format=json").json["items"]}
        assert (states[given_up], states[unwanted]) == ("dead", None)
        (found,) = visitor.get("/events?delivery=dead&type=ussd.session.ended&format=json").json["items"]
        assert found["id"] == given_up
        visitor.post(f"/webhooks/{webhook['id']}/enable")
        assert visitor.post("/events/redeliver-chosen").status_code == 303
        assert "choose one or more" in visitor.get("/events").text
        visitor.post("/events/redeliver-chosen", event_ids=[given_up, MISSING, "none"])
        waiting_path = "/events?delivery=waiting&type=ussd.session.ended&format=json"
        assert visitor.get(waiting_path).json["items"] == []
        services.relay.run()
        (waiting,) = visitor.get(waiting_path).json["items"]
        assert (waiting["id"], waiting["delivery"]) == (given_up, "waiting")
        deliver(services)
    states = {each["id"]: each["delivery"] for each in visitor.get("/events?format=json").json["items"]}
    assert states[given_up] == "delivered"


def test_viewers_look_only_and_another_clients_webhooks_answer_as_missing_ones(
    visit: Visit, services: Services, example_client: ExampleClient
) -> None:
    other = ExampleClient(services, "other")
    theirs = visit(client=other)
    with Receiver() as receiver:
        theirs.post("/webhooks/new", url=receiver.url, which="all")
        (event_id,) = happen(services, other.call())
        deliver(services)
    (webhook,) = theirs.get("/webhooks?format=json").json["items"]
    visitor, viewer = visit(), visit("viewer", client=other)
    assert_same(*(visitor.get(f"/webhooks/{one}") for one in (webhook["id"], MISSING)))
    for action in ("test", "rotate", "enable", "delete"):
        assert_same(
            *(visitor.post(f"/webhooks/{one}/{action}", grace_period_seconds="0") for one in (webhook["id"], MISSING))
        )
        assert viewer.post(f"/webhooks/{webhook['id']}/{action}", grace_period_seconds="0").status_code == 403
    assert_same(*(visitor.get(f"/events/{one}") for one in (event_id, MISSING)))
    assert_same(*(visitor.post(f"/events/{one}/redeliver") for one in (event_id, MISSING)))
    page = viewer.get(f"/webhooks/{webhook['id']}").text
    assert webhook["url"] in page.replace("<wbr>", "")
    assert "Delete the webhook" not in page
    assert "Redeliver" not in viewer.get(f"/events/{event_id}").text + viewer.get("/events").text
    assert viewer.get("/webhooks/new").status_code == viewer.post("/events/redeliver").status_code == 403


def _kampala(clock: MovableClock, seconds: float) -> str:
    """A moment as the field of a browser gives it, `seconds` from now."""
    return (clock.now() + timedelta(seconds=seconds)).astimezone(KAMPALA).strftime("%Y-%m-%dT%H:%M")
