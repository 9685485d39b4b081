"""The pages of the audit trail."""

from __future__ import annotations

import io
import re
from datetime import timedelta
from pathlib import Path

import ussd_server
from tests.conftest import MovableClock
from tests.console.conftest import Operators, Visit
from tests.support.example_client import ExampleClient
from ussd_server.console.actions import action_in_words

FILE = "phone_number,amount,reference\n0770000000,5,E-1\n"


def test_entries_name_and_link_their_object_and_are_filtered_by_person_action_and_day(
    visit: Visit, clock: MovableClock
) -> None:
    maker, owner = visit("developer"), visit("owner")
    maker.get("/payouts/new")
    file = (io.BytesIO(FILE.encode()), "pay.csv")
    path = maker.post("/payouts/new", reference="NOV", file=file).location
    everything = owner.get("/audit?format=json").json["items"]
    (made,) = owner.get("/audit?action=payout.created&format=json").json["items"]
    assert (made["object_name"], made["who"]) == ("NOV", "developer@acme.example")
    page = owner.get("/audit?action=payout.created").text
    assert f'<a class="opens" href="{path}"><bdi class="reference" title="NOV">' in page
    assert '<option value="login.succeeded">signed in</option>' in page
    assert "<bdi>created a payout</bdi>" in page
    person = page.partition(">developer@acme.example</option>")[0].rpartition('value="')[2].rstrip('"')
    of_person = owner.get(f"/audit?person={person}&format=json").json["items"]
    assert {item["who"] for item in of_person} == {"developer@acme.example"}
    assert len(of_person) < len(everything)
    today = clock.now().date()
    assert owner.get(f"/audit?from={today + timedelta(days=2)}&format=json").json["items"] == []
    assert owner.get(f"/audit?from={today - timedelta(days=2)}&format=json").json["items"] == everything


def test_operators_find_what_was_done_by_action(operator: Operators, example_client: ExampleClient) -> None:
    ann = operator("ann")
    path = f"/operator/clients/{example_client.id}"
    ann.post(f"{path}/disable", reason="unpaid")
    page = ann.get("/operator/audit?action=client.disabled").text
    assert page.count(f'href="/console{path}">') == 2
    assert ">looked at the API keys</option>" not in page
    (item,) = ann.get("/operator/audit?action=client.disabled&format=json").json["items"]
    assert (item["object_name"], item["reason"]) == (item["client"], "unpaid")


def test_every_action_of_the_trail_has_words() -> None:
    written = set[str]()
    for file in Path(ussd_server.__file__).parent.rglob("*.py"):
        for call in re.findall(r"write_audit_event\(\s*(.{0,90})", file.read_text(encoding="utf-8")):
            written |= set(re.findall(r'^"([a-z_]+\.[a-z_]+)",', call))
    assert len(written) > 50
    assert [action for action in sorted(written) if action_in_words(action) == action] == []
