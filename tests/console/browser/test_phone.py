"""The phone of the console in Chromium: with its keys, with the keyboard, and without scripts."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect

from tests.console.browser.test_pages import take_screenshot
from tests.console.browser.visitor import LOOKS_OF_ONE_PAGE, Visitor

pytestmark = pytest.mark.needs_chromium

IS_IN_VIEW = """() => {
  const lit = document.querySelector(".map .lit").getBoundingClientRect();
  const box = document.querySelector(".map .diagram-box").getBoundingClientRect();
  const [x, y] = [(lit.left + lit.right) / 2, (lit.top + lit.bottom) / 2];
  return box.left < x && x < box.right && box.top < y && y < box.bottom;
}"""


@pytest.mark.parametrize(("scheme", "width"), LOOKS_OF_ONE_PAGE)
def test_a_call_is_made_with_keys_and_the_keyboard_beside_its_lit_diagram(
    visitor: Visitor, scheme: str, width: int
) -> None:
    with visitor.tab(scheme, width) as page:
        page.goto("/console/phone")
        screen = page.locator("#lcd")
        page.locator("#target").select_option("draft:shop")
        expect(page.locator(".map h2")).to_have_text("shop · draft")
        # The new list has no script yet while htmx settles.
        expect(page.locator(".htmx-settling")).to_have_count(0)
        page.locator("#target").select_option("code:*384*123#")
        expect(page.locator(".map h2")).to_have_text("shop · version 1")
        page.get_by_role("button", name="Call").click()
        expect(screen).to_contain_text("Welcome to ACME")
        page.get_by_label("Your answer").fill("1")
        page.keyboard.press("Enter")
        expect(screen).to_contain_text("Enter amount")
        expect(page.locator(".diagram .lit")).to_have_attribute("data-node", "amount")
        # What is typed while htmx settles is lost with the field that it replaces.
        expect(page.locator(".htmx-settling, .htmx-swapping, .htmx-request")).to_have_count(0)
        for typed in ("5", "50", "500", "5000"):
            page.locator(f"button[data-key='{typed[-1]}']").click()
            expect(page.get_by_label("Your answer")).to_have_value(typed)
        page.get_by_role("button", name="Send", exact=True).click()
        expect(screen).to_contain_text("Pay UGX 5,000?")
        # The sticky header must not cover half of a link.
        page.evaluate("scrollTo(0, 0)")
        visitor.look_at(page)
        take_screenshot(page, "phone-call", scheme, width)
        page.get_by_role("button", name="Press 2: No").click()
        expect(screen).to_contain_text("Welcome to ACME")
        page.get_by_role("button", name="Hang up").click()
        expect(screen).to_contain_text("You hung up")
        page.evaluate("scrollTo(0, 0)")
        visitor.look_at(page)
        page.goto("/console/sessions")
        page.locator("td.moment a").first.click()
        page.get_by_role("link", name="Replay against the draft").click()
        expect(page.get_by_text("Pay UGX 5,000?")).to_be_visible()
        page.evaluate("scrollTo(0, 0)")
        visitor.look_at(page)


def test_keys_go_to_the_screen_that_is_shown_or_to_the_next_one(visitor: Visitor) -> None:
    with visitor.tab(width=1280) as page:
        page.goto("/console/phone?target=draft:shop")
        screen, entry = page.locator("#lcd"), page.locator("#entry")
        page.get_by_role("button", name="Call").click()
        expect(screen).to_contain_text("Welcome to ACME")
        expect(entry).to_be_focused()
        # One answer is held up: what is typed then belongs to the screens that follow.
        held: list[Route] = []
        page.route("**/console/phone", lambda route: held.append(route), times=1)
        page.keyboard.type("1")
        page.keyboard.press("Enter")
        page.wait_for_function("document.querySelector('#entry').value === ''")
        page.keyboard.type("5000")
        page.keyboard.press("Enter")
        page.keyboard.type("2")
        held[0].continue_()
        expect(screen).to_contain_text("Pay UGX 5,000?")
        expect(entry).to_have_value("2")
        expect(entry).to_be_focused()


def test_what_is_typed_stays_while_the_messages_beside_the_phone_refresh(visitor: Visitor) -> None:
    with visitor.tab(width=1280) as page:
        page.goto("/console/phone?target=code:*384*123%23")
        page.get_by_role("button", name="Call").click()
        entry = page.get_by_label("Your answer")
        entry.fill("1")
        for _ in range(2):
            with page.expect_response("**/console/phone/messages**"):
                expect(entry).to_have_value("1")
        expect(entry).to_have_value("1")
        page.keyboard.press("Enter")
        expect(page.locator("#lcd")).to_contain_text("Enter amount")
        page.get_by_role("button", name="Hang up").click()
        expect(page.locator("#lcd")).to_contain_text("You hung up")


def test_a_step_that_the_network_lost_is_said_and_can_be_sent_again(visitor: Visitor) -> None:
    with visitor.tab() as page:
        cookies = page.context.storage_state()
    # Not a tab of the visitor: the browser writes to its console that it is offline.
    context = visitor.browser.new_context(base_url=visitor.console.base_url, storage_state=cookies)
    page = context.new_page()
    page.goto("/console/phone?target=draft:shop")
    page.get_by_role("button", name="Call").click()
    expect(page.locator("#lcd")).to_contain_text("Welcome to ACME")
    context.set_offline(True)
    page.get_by_label("Your answer").fill("1")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="Not connected")).to_be_visible()
    expect(page.get_by_label("Your answer")).to_have_value("1")
    context.set_offline(False)
    page.keyboard.press("Enter")
    expect(page.locator("#lcd")).to_contain_text("Enter amount")
    context.close()


@pytest.mark.parametrize("width", [360, 1280, 1600])
def test_the_lit_node_is_in_view_and_the_diagram_can_be_made_to_fit(visitor: Visitor, width: int) -> None:
    with visitor.tab(width=width) as page:
        page.goto("/console/phone?target=draft:shop")
        page.get_by_role("button", name="Call").click()
        for entry, node in (("4", "voucher"), ("K7", "used")):
            page.get_by_label("Your answer").fill(entry)
            page.keyboard.press("Enter")
            expect(page.locator(".diagram .lit")).to_have_attribute("data-node", node)
            assert page.evaluate(IS_IN_VIEW)
        page.get_by_role("button", name="Larger").click()
        assert page.evaluate(IS_IN_VIEW)
        page.get_by_role("button", name="Fit").click()
        box = page.locator(".map .diagram-box")
        assert box.evaluate("box => box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight")


def test_a_draft_is_walked_without_scripts_and_saved_as_a_script(visitor: Visitor) -> None:
    with visitor.tab(width=360) as page:
        cookies = page.context.storage_state()
    context = visitor.browser.new_context(
        base_url=visitor.console.base_url, java_script_enabled=False, storage_state=cookies
    )
    page = context.new_page()
    page.goto("/console/phone?target=draft:shop")
    page.get_by_role("button", name="Call").click()
    page.get_by_role("button", name="4 ghi").click()
    page.get_by_label("Your answer").press("Enter")
    expect(page.locator("#lcd")).to_contain_text("Enter your voucher code")
    page.get_by_text("Save this walk as a script").click()
    page.get_by_label("Name").fill("a voucher")
    page.get_by_role("button", name="Save in the draft").click()
    expect(page.get_by_text("Saved as a script of the draft of shop.")).to_be_visible()
    context.close()
