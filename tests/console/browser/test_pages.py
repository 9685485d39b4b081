"""Every page of the console in Chromium: accessible, within its width, without faults and other hosts."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pyotp
import pytest
from playwright.sync_api import Page, expect

from tests.console.browser.visitor import LOOKS, LOOKS_OF_ONE_PAGE, Chromium, Console, Paths, ShareOfPages, Visitor
from tests.support.example_client import OPERATOR
from ussd_server.context import operator_context
from ussd_server.models.clients import Login
from ussd_server.providers.messages import Outcome, ProviderAnswer
from ussd_server.services.clients.keys.messages import CreateApiKey
from ussd_server.services.transactions.messages import (
    CreateDeposit,
    CreateTransaction,
    GetTransaction,
    TransactionType,
)
from ussd_server.services.ussd.messages import BeginSession

pytestmark = pytest.mark.needs_chromium

PAGES = (
    "/",
    "/payouts",
    "/payouts/approval-rules",
    "/statements",
    "/reports",
    "/bank-account",
    "/payment-codes",
    "/payment-codes/new",
    "/requests",
    "/subscribers/+256770000000",
    "/payouts/new",
    "/collect",
    "/pay",
    "/api-keys",
    "/api-keys/new",
    "/audit",
    "/transactions",
    "/webhooks",
    "/webhooks/new",
    "/events",
    "/search?q=0770000000",
    "/people",
    "/people/invite",
    "/notifications",
    "/security",
    "/security/new",
    "/menus",
    "/menus/new",
    "/menus/shop",
    "/menus/shop/edit",
    "/menus/shop/versions/1",
    "/menus/shop/replay?from=2020-01-01T00:00",
    "/sessions",
    "/messages",
    "/messages/receipts",
    "/phone",
    "/phone?target=draft:shop",
)
OPERATOR_PAGES = (
    "/operator",
    "/operator/reviews",
    "/operator/proposals",
    "/operator/reconciliation",
    "/operator/reconciliation/new",
    "/operator/differences",
    "/operator/days",
    "/operator/days/sandbox/2026-01-01",
    "/operator/settlements",
    "/operator/movements",
    "/operator/operators",
    "/operator/audit",
    "/operator/providers",
    "/operator/search?q=0770000000",
    "/operator/clients",
    "/operator/api-keys?q=unknown1",
    "/operator/channels",
    "/operator/channels/new",
    "/operator/system",
    "/operator/mails",
    "/operator/notifications",
)
# A folder for a screenshot of each page, for people.
SCREENSHOTS = os.environ.get("USSD_TEST_SCREENSHOTS")


def take_screenshot(page: Page, path: str, scheme: str, width: int) -> None:
    """Keep a screenshot of the page, where screenshots are wanted."""
    if SCREENSHOTS:
        name = path.strip("/").replace("/", "-") or "overview"
        page.screenshot(path=Path(SCREENSHOTS) / f"{name}-{scheme}-{width}.png", full_page=True)


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_every_page_is_accessible_and_fits(
    visitor: Visitor,
    console: Console,
    delivered: Paths,
    people: Paths,
    share_of_pages: ShareOfPages,
    scheme: str,
    width: int,
) -> None:
    key = console.services.api_keys.create(CreateApiKey(("ussd:read",)), console.client.call())
    paid, drafted = console.pay(), console.draft_payout()
    console.services.deposits.create(CreateDeposit(console.client.id, 123_456_789_000, f"{scheme} bank"), OPERATOR)
    with visitor.tab(scheme, width) as page:
        own = (
            f"/api-keys/{key.id}",
            f"/api-keys/{key.id}/edit",
            f"/transactions/{paid}",
            f"/transactions/{paid}/everything",
        )
        code = console.open_code()
        own = (*own, code, f"{code}/edit")
        payout = (f"/payouts/{drafted}", f"/payouts/{drafted}/correct", f"{delivered[0]}/edit")
        for path in share_of_pages(scheme, (*PAGES, *own, *payout, *delivered, *people)):
            visitor.look_at(page, path)
            take_screenshot(page, path, scheme, width)
    with visitor.tab(scheme, width, signed_in=False) as page:
        for path in ("/sign-in", "/operator/sign-in"):
            visitor.look_at(page, path)


@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_every_page_of_operators_is_accessible_and_fits(
    operator: Visitor,
    console: Console,
    installed: Paths,
    delivered: Paths,
    share_of_pages: ShareOfPages,
    scheme: str,
    width: int,
) -> None:
    begun = BeginSession("+256770000000", "*384*123#")
    walked = console.services.api_sessions.begin(begun, operator_context(console.client.id)).session_id
    key = console.services.api_keys.create(CreateApiKey(None), console.client.call())
    own = (
        console.hold_payment(),
        f"/operator/transactions/{console.pay()}",
        f"/operator/api-keys/{key.id}",
        f"/operator/payouts/{console.draft_payout()}",
        f"/operator{delivered[1]}",
        f"/operator/sessions/{walked}",
        *console.compare_statement(),
    )
    with operator.tab(scheme, width) as page:
        for path in share_of_pages(scheme, (*OPERATOR_PAGES, *own, *installed)):
            operator.look_at(page, path)
            take_screenshot(page, path, scheme, width)


def test_one_panel_is_open_at_a_time_and_closes_by_a_click_beside_it_or_escape(
    visitor: Visitor, console: Console
) -> None:
    with visitor.tab() as page:
        page.goto(f"/console/transactions/{console.pay()}")
        refund, actions = page.locator(".heading .actions > details").all()
        note = actions.locator(".confirm")
        for panel in (refund, actions, note):
            panel.locator("> summary").click()
        page.get_by_label("Note").fill("Asked twice")
        is_open = "panel => panel.open"
        assert [panel.evaluate(is_open) for panel in (refund, actions, note)] == [False, True, True]
        page.keyboard.press("Escape")
        assert [panel.evaluate(is_open) for panel in (actions, note)] == [True, False]
        expect(note.locator("> summary")).to_be_focused()
        note.locator("> summary").click()
        expect(page.get_by_label("Note")).to_have_value("Asked twice")
        page.locator("h1").click()
        assert page.locator(".heading details[open]").count() == 0


def test_pages_and_their_panels_fit_in_luganda(
    visitor: Visitor, operator: Visitor, console: Console, delivered: Paths
) -> None:
    payment, payout = f"/transactions/{console.pay()}", f"/payouts/{console.draft_payout()}"
    own = (
        "/webhooks",
        "/bank-account",
        "/people",
        "/security",
        "/api-keys",
        "/payouts",
        "/transactions",
        payment,
        payout,
    )
    of_operators = "/operator/reviews", "/operator/audit", "/operator/reconciliation"
    for person, paths in ((visitor, (*own, *delivered)), (operator, of_operators)):
        with person.tab() as page:
            page.context.add_cookies([{"name": "language", "value": "lg", "url": f"{console.base_url}/console"}])
            for path in paths:
                page.goto(f"/console{path}")
                assert page.locator("html").get_attribute("lang") == "lg"
                for width in (390, 768, 1280, 1440):
                    person.check_width(page, width)


@pytest.mark.parametrize(("scheme", "width"), LOOKS_OF_ONE_PAGE)
def test_the_pages_of_an_installation_with_a_mail_server_are_accessible_and_fit(
    visitor: Visitor, console: Console, scheme: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console.services.runtime.mail_outbox, "is_on", True)
    with visitor.tab(scheme, width) as page:
        visitor.look_at(page, "/people/invite")
    with visitor.tab(scheme, width, signed_in=False) as page:
        for path in ("/sign-in", "/forgotten-password"):
            visitor.look_at(page, path)


@pytest.mark.parametrize(("scheme", "width"), LOOKS_OF_ONE_PAGE)
def test_a_person_adds_a_second_factor_and_gives_a_fresh_code(
    console: Console, chromium: Chromium, scheme: str, width: int
) -> None:
    # Each scheme and width has a person of its own, because the second factor stays.
    visitor = Visitor(console, chromium, role="admin" if width == 360 else "developer")
    key = console.services.api_keys.create(CreateApiKey(("ussd:read",)), console.client.call())
    with visitor.tab(scheme, width) as page:
        page.goto("/console/security")
        page.get_by_role("link", name="Add a second factor").click()
        secret = page.locator("[data-copy]").get_attribute("data-copy") or ""
        assert page.locator(".qr-code").evaluate("picture => picture.complete && picture.naturalWidth > 0")
        page.get_by_label("Code").fill(pyotp.TOTP(secret).now())
        page.get_by_role("button", name="Add it").click()
        expect(page.locator(".recovery-codes li")).to_have_count(10)
        visitor.look_at(page)
        take_screenshot(page, "/security/recovery-codes", scheme, width)
        code = page.locator(".recovery-codes li").first.inner_text()
        page.get_by_role("link", name="I have kept them").click()
        visitor.look_at(page)
        take_screenshot(page, "/security/added", scheme, width)
        cookies = page.context.storage_state()
    Login.update(code_accepted_at=None).execute()
    # Chromium notes the status 401 as an error.
    context = visitor.browser.new_context(
        base_url=console.base_url,
        storage_state=cookies,
        color_scheme=scheme,  # type: ignore[arg-type]
        viewport={"width": width, "height": 900},
    )
    page = context.new_page()
    page.goto(f"/console/api-keys/{key.id}")
    with page.expect_response("**/reveal") as answered:
        page.get_by_role("button", name="Reveal").click()
    assert answered.value.status == 401
    visitor.look_at(page)
    take_screenshot(page, "/security/fresh-code", scheme, width)
    page.get_by_label("Code").fill(code)
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("button", name="Copy secret").wait_for()
    context.close()


def test_the_menu_opens_on_a_phone_and_a_key_is_made_revealed_copied_and_deleted(visitor: Visitor) -> None:
    with visitor.tab(width=360) as page:
        page.goto("/console")
        page.get_by_role("button", name="Menu").click()
        visitor.look_at(page)
        page.get_by_role("link", name="API keys").click()
        page.get_by_role("link", name="New API key").first.click()
        page.get_by_role("button", name="Create the key").click()
        page.get_by_role("button", name="Reveal").click()
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.get_by_role("button", name="Copy secret").click()
        page.wait_for_function("navigator.clipboard.readText().then(secret => secret.length > 30)")
        page.locator(".heading .drop > summary").click()
        page.get_by_text("Delete the key …").click()
        page.get_by_role("button", name="Delete it for ever").click()
        page.get_by_text("The API key is deleted.").wait_for()


def test_what_is_wrong_with_a_form_stands_beside_its_field_in_the_words_of_the_form(
    visitor: Visitor, console: Console
) -> None:
    with visitor.tab() as page:
        cookies = page.context.storage_state()
    # A tab of `visitor` takes no refusal.
    context = visitor.browser.new_context(
        base_url=console.base_url, storage_state=cookies, viewport={"width": 360, "height": 800}
    )
    page = context.new_page()
    page.goto("/console/api-keys/new")
    page.get_by_label("Allowed addresses").fill("nonsense")
    page.get_by_role("button", name="Create the key").click()
    problem = page.locator("label .field-error")
    expect(problem).to_be_in_viewport()
    assert "allowed_addresses" not in problem.inner_text()
    expect(page.locator("[name=allowed_addresses]")).to_be_focused()
    # What the head of the page covers halfway counts as too small.
    page.evaluate("scrollTo(0, 0)")
    visitor.look_at(page)
    context.close()


def test_a_live_part_follows_what_happens(visitor: Visitor, console: Console) -> None:
    key = console.services.api_keys.create(CreateApiKey(None), console.client.call())
    with visitor.tab() as page:
        page.goto(f"/console/api-keys/{key.id}")
        page.get_by_text("0 of 100").wait_for()
        console.services.auth.authenticate_key(key.apikey, key.apisecret, "192.0.2.1")
        page.get_by_text("1 of 100").wait_for()


def test_the_title_says_how_much_needs_attention_while_the_page_is_open(visitor: Visitor, console: Console) -> None:
    heartbeat = console.services.runtime.heartbeat
    with visitor.tab() as page:
        page.goto("/console")
        count = int(page.locator("#figures").get_attribute("data-attention") or 0)
        expect(page).to_have_title(f"{f'({count}) ' if count else ''}Overview · USSD console")
        for _ in range(20):
            heartbeat.count_call("sandbox", "ask", ProviderAnswer(Outcome.UNKNOWN), 100)
        heartbeat.beat()
        expect(page).to_have_title(f"({count + 1}) Overview · USSD console")
    heartbeat.end()


def test_a_live_part_keeps_the_focus_and_waits_while_its_text_is_selected(visitor: Visitor, console: Console) -> None:
    context = operator_context(console.client.id)
    order = CreateTransaction(TransactionType.COLLECTION, "+256770000004", 500_000, secrets.token_hex(16))
    made = console.services.transactions.create(order, context).transaction.transaction_id
    with visitor.tab() as page:
        page.goto(f"/console/transactions/{made}")
        button = page.get_by_role("button", name="Copy reference")
        button.focus()
        live = page.locator("#live")
        live.evaluate("part => getSelection().selectAllChildren(part)")
        console.advance(made)
        with page.expect_response(lambda reply: reply.status == 200 and "x-console-poll" in reply.request.headers):
            pass
        expect(live.get_by_text("created", exact=True).first).to_be_visible()
        page.evaluate("getSelection().removeAllRanges()")
        live.get_by_text("pending", exact=True).first.wait_for()
        expect(button).to_be_focused()


def test_a_page_says_what_it_shows_without_a_network_and_keeps_a_form_when_its_sender_was_signed_out(
    visitor: Visitor, console: Console
) -> None:
    key = console.services.api_keys.create(CreateApiKey(None), console.client.call())
    # Not a tab of a visitor, because Chromium notes lost and refused requests as errors.
    context = visitor.browser.new_context(base_url=console.base_url)
    context.set_default_timeout(90_000)
    page = context.new_page()
    visitor.sign_in(page)
    page.goto(f"/console/api-keys/{key.id}")
    context.set_offline(True)
    page.get_by_text("Not connected. This page shows what was known at").wait_for()
    context.set_offline(False)
    expect(page.locator("#connection")).to_be_hidden()
    page.locator(".heading .drop > summary").click()
    page.get_by_text("Rotate the secret …").click()
    page.get_by_label("The old secret stays valid").select_option(index=0)
    context.clear_cookies()
    page.get_by_text("You are signed out. A form that you send now is kept").wait_for()
    page.get_by_role("button", name="Rotate now").click()
    page.get_by_text("Sign in and your form goes on where you left it").wait_for()
    context.close()


def test_a_table_fits_the_paper(visitor: Visitor, console: Console) -> None:
    console.pay()
    with visitor.tab(width=794) as page:
        page.emulate_media(media="print")
        for path in ("/statements", "/transactions", "/reports"):
            page.goto(f"/console{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= 794, path
            assert page.get_by_role("button", name="Menu").is_hidden()


def test_pages_work_without_scripts(visitor: Visitor, console: Console) -> None:
    with visitor.tab(scheme="light", width=360) as page:
        cookies = page.context.storage_state()
    context = visitor.browser.new_context(
        base_url=console.base_url,
        java_script_enabled=False,
        storage_state=cookies,
        viewport={"width": 360, "height": 800},
    )
    page = context.new_page()
    page.goto("/console/api-keys")
    page.get_by_role("button", name="Menu").click()
    page.get_by_role("link", name="Audit trail").click()
    expect(page.get_by_role("heading", name="Audit trail")).to_be_visible()
    context.close()


def test_a_payment_is_found_by_its_receipt_explained_and_refunded(visitor: Visitor, console: Console) -> None:
    console.services.deposits.create(
        CreateDeposit(console.client.id, 1_000_000, secrets.token_hex(8)), operator_context()
    )
    paid = console.services.transactions.get(GetTransaction(console.pay()), operator_context(console.client.id))
    with visitor.tab() as page:
        page.goto("/console/audit")
        page.keyboard.press("/")
        page.keyboard.type(str(paid.provider_transaction_id))
        page.keyboard.press("Enter")
        page.get_by_text("arrived in the main account").wait_for()
        page.get_by_text("Refund …").click()
        page.get_by_label("Amount").fill("1,500")
        page.get_by_label("Reason").fill("The parcel was lost")
        page.get_by_role("button", name="Refund it").click()
        page.get_by_text("The refund is on its way to the payer.").wait_for()
        page.get_by_text("is reserved in the main account").wait_for()
        refund_id = page.url.rpartition("/")[2]
        console.advance(refund_id)
        page.get_by_text("reached the payer").wait_for()
        page.get_by_role("link", name=paid.reference, exact=True).click()
        page.get_by_text("UGX 1,500 of it was refunded").wait_for()
