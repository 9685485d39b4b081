"""/docs in Chromium: it fits, asks no other host, searches, and tries a call with the demonstration's key."""

from __future__ import annotations

import json
from copy import copy
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.console.browser.visitor import Console, Visitor
from ussd_server.app import create_app

pytestmark = pytest.mark.needs_chromium


@pytest.fixture
def demonstration(console: Console) -> Path:
    """`demo.json` with a key of the console's client."""
    path = console.services.settings.data_dir / "demo.json"
    key = console.client.create_key("balance:read")
    path.write_text(json.dumps({"apikey": key.apikey, "apisecret": key.apisecret}))
    return path


@pytest.mark.parametrize(("scheme", "width"), [("dark", 390), pytest.param("light", 1600, marks=pytest.mark.nightly)])
def test_it_is_readable_and_fits(visitor: Visitor, scheme: str, width: int) -> None:
    with visitor.tab(scheme, width, signed_in=False) as page:
        page.goto("/docs")
        page.get_by_role("heading", name="Create transaction").first.wait_for()
        visitor.look_at(page)
        expect(page.locator("main")).to_have_count(1)
        expect(page.locator("h1")).to_have_count(1)


def test_it_has_a_heading_and_a_main_part_before_the_description_is_loaded(visitor: Visitor) -> None:
    with visitor.tab(signed_in=False) as page:
        page.route("**/openapi.json", lambda _: None)
        visitor.look_at(page, "/../docs")
        expect(page.locator("main h1")).to_have_text("USSD server: the API")


def test_a_call_is_found_read_in_four_languages_and_tried(
    visitor: Visitor, console: Console, demonstration: Path
) -> None:
    with visitor.tab(signed_in=False) as page:
        page.goto("/docs")
        page.get_by_role("heading", name="Create transaction").first.wait_for()
        page.get_by_role("button", name="Shell Curl").first.click()
        expect(page.get_by_role("option")).to_have_count(4)
        assert sorted(page.get_by_role("option").all_inner_texts()) == ["Curl", "Fetch", "Requests", "cURL"]
        page.keyboard.press("Escape")
        page.get_by_role("button", name="Search").first.click()
        expect(page.locator("input:focus")).to_be_visible()
        page.keyboard.type("balance")
        expect(page.get_by_role("option").first).to_contain_text("/api/balance")
        page.get_by_role("option").first.click()
        page.get_by_role("heading", name="Get balance").first.wait_for()
        page.get_by_role("button", name="Test Request (get /api/balance)").click()
        with page.expect_response("**/api/balance*") as tried:
            page.get_by_role("button", name="Send").first.click()
        assert tried.value.status == 200


def test_an_example_of_a_reply_and_the_body_of_a_webhook_are_shown(visitor: Visitor) -> None:
    with visitor.tab(signed_in=False) as page:
        page.goto("/docs#tag/transactions/GET/api/balance")
        page.get_by_role("heading", name="Get balance").first.wait_for()
        expect(page.locator("pre", has_text='"as_of"').first).to_contain_text('"currency": "UGX"')
        page.goto("/docs#tag/events/webhook/POST/webhook.disabled")
        page.get_by_role("heading", name="webhook.disabled").first.wait_for()
        expect(page.get_by_text("The receiver answered 410 Gone").first).to_be_visible()


@pytest.mark.parametrize(
    ("settings", "caller"),
    [
        ({"environment": "production"}, {}),
        ({}, {"REMOTE_ADDR": "192.0.2.1"}),
        ({}, {"HTTP_HOST": "pay.example"}),
        ({}, {"HTTP_X_FORWARDED_FOR": "192.0.2.1"}),
    ],
)
def test_the_key_is_shown_only_in_a_sandbox_and_only_on_this_machine(
    console: Console, demonstration: Path, settings: dict[str, str], caller: dict[str, str]
) -> None:
    apikey = json.loads(demonstration.read_text())["apikey"]
    here = {"REMOTE_ADDR": "127.0.0.1"}
    services = copy(console.services)
    object.__setattr__(services, "settings", replace(services.settings, **settings))
    app = create_app(services)
    assert (apikey in app.test_client().get("/docs", environ_overrides=here).text) == (not settings)
    assert apikey not in app.test_client().get("/docs", environ_overrides=here | caller).text
