"""Every list of the console can be exported whole."""

from __future__ import annotations

import csv
import io
from datetime import timedelta

import pytest
from flask.testing import FlaskClient

from tests.console.conftest import Operators, Visit
from tests.services.payouts.desk import row
from tests.support.example_client import ExampleClient
from tests.support.money import deposit
from tests.support.program import Program
from ussd_server.bootstrap import Services
from ussd_server.context import operator_context
from ussd_server.models.clients import Client

LISTS = (
    "/transactions", "/payouts", "/events", "/requests", "/people", "/audit", "/messages", "/sessions", "/statements",
    "/api-keys", "/webhooks", "/menus", "/payment-codes",
)  # fmt: skip


def lines_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_file_has_all_pages_of_the_filter_and_the_page_leads_to_it(
    visit: Visit, services: Services, example_client: ExampleClient, web: FlaskClient
) -> None:
    program = Program(services, web, client_id=example_client.id)
    for number in range(70):
        program.collect(reference=f"r{number}", amount=500 if number % 2 else 600)
    owner = visit("owner")
    assert "format=csv&amp;all=1" in owner.get("/transactions").text
    assert len(lines_of(owner.get("/transactions?format=csv").text)) == 50
    whole = owner.get("/transactions?format=csv&all=1")
    assert whole.mimetype == "text/csv"
    assert [line["reference"] for line in lines_of(whole.text)] == [f"r{number}" for number in reversed(range(70))]
    assert len(lines_of(owner.get("/transactions?format=csv&all=1&reference=r7").text)) == 1
    assert len(lines_of(owner.get("/events?format=csv&all=1").text)) == 70


def test_all_rows_of_a_payout(
    visit: Visit, services: Services, example_client: ExampleClient, web: FlaskClient
) -> None:
    deposit(services, operator_context(example_client.id), 100_000)
    program = Program(services, web, client_id=example_client.id)
    items = [row(f"r{number}") for number in range(120)]
    made = program.post("/api/payouts", {"reference": "P", "items": items}).json["data"]["payout_id"]
    assert len(lines_of(visit("owner").get(f"/payouts/{made}?format=csv&all=1").text)) == 120


def test_the_days_of_providers_are_a_file_too(services: Services, operator: Operators) -> None:
    made = ExampleClient(services)
    Client.update(created_at=services.clock.now() - timedelta(days=60)).where(Client.id == made.id).execute()
    days = lines_of(operator("ann").get("/operator/days?format=csv&all=1").text)
    assert (len(days), {each["closed_by"] for each in days}) == (31, {""})


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_each_list_is_a_whole_file(visit: Visit, path: str) -> None:
    reply = visit("owner").get(f"{path}?format=csv&all=1")
    assert (reply.status_code, reply.mimetype) == (200, "text/csv")
