"""The menu editor in Chromium: findings at their lines, the keyboard, and without scripts."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.console.browser.test_pages import take_screenshot
from tests.console.browser.visitor import LOOKS_OF_ONE_PAGE, Visitor

pytestmark = pytest.mark.needs_chromium

HEAD = "id: {menu}\nstart: root\ndefault_language: en\nlanguages: [en]\nnodes:\n"
WRONG = "  root: {type: text, text: {en: Hello}, goto: nowhere}"
RIGHT = "  root: {type: end, text: {en: Hello}}"


def opened(page: Page, menu: str) -> Locator:
    """Open a menu in the editor, and return where its text is typed."""
    page.goto(f"/console/menus/{menu}/edit")
    return page.get_by_role("textbox", name="The document")


def write(text: Locator, content: str) -> None:
    """Replace the text. Chromium would give typed text the style of what it replaces, which the policy refuses."""
    text.press("Control+A")
    text.press("Delete")
    text.page.keyboard.insert_text(content)


@pytest.mark.parametrize(("scheme", "width"), LOOKS_OF_ONE_PAGE)
def test_a_menu_is_typed_mended_at_the_line_of_its_error_and_published(
    visitor: Visitor, scheme: str, width: int
) -> None:
    menu = f"typed-{scheme}"
    with visitor.tab(scheme, width) as page:
        page.goto("/console/menus/new")
        page.get_by_label("Menu id").fill(menu)
        page.get_by_label("Or its text").fill(HEAD.format(menu=menu) + RIGHT)
        page.get_by_role("button", name="Save the draft").click()
        text = opened(page, menu)
        write(text, HEAD.format(menu=menu) + WRONG)
        page.get_by_text("The check found errors").wait_for()
        expect(page.locator(".cm-gutterElement", has=page.locator(".cm-lint-marker-error"))).to_have_count(1)
        expect(page.locator(".cm-lintRange-error").first).to_have_text(WRONG.strip())
        page.locator(".cm-lintRange-error").first.hover()
        expect(page.locator(".cm-tooltip-lint").first).to_contain_text("nowhere")
        assert page.locator(".findings .badge").first.evaluate("badge => badge.offsetHeight") < 30
        visitor.look_at(page)
        take_screenshot(page, "/menus/editor", scheme, width)
        page.get_by_role("link", name="Go to line 6").first.click()
        assert page.evaluate("getSelection().toString()") == WRONG
        page.keyboard.press("Delete")
        page.keyboard.insert_text(RIGHT)
        page.get_by_text("The check passes").wait_for()
        expect(page.locator(".cm-lint-marker-error")).to_have_count(0)
        page.get_by_role("button", name="Save the draft").click()
        page.goto(f"/console/menus/{menu}/versions/draft")
        page.get_by_role("button", name="Publish it").click()
        page.get_by_text("Version 1 is published").wait_for()


def test_a_text_that_is_no_yaml_is_marked_at_its_line(visitor: Visitor) -> None:
    with visitor.tab() as page:
        write(opened(page, "shop"), "id: shop\nstart: 'root\n")
        page.locator("#report").get_by_text("not valid YAML").wait_for()
        expect(page.locator(".cm-lint-marker-error")).to_have_count(1)


def test_the_keyboard_indents_and_leaves_the_editor(visitor: Visitor) -> None:
    with visitor.tab() as page:
        text = opened(page, "shop")
        text.press("Tab")
        expect(page.locator("textarea[name=text]")).to_have_value(re.compile(r"^  id: shop"))
        text.press("Escape")
        page.keyboard.press("Tab")
        expect(page.get_by_role("button", name="Save the draft")).to_be_focused()


def test_what_is_typed_outlives_a_page_that_is_out_of_date(visitor: Visitor) -> None:
    with visitor.tab() as page:
        text = opened(page, "shop")
        page.route("**/menus/shop/edit", lambda route: route.fulfill(status=200, headers={"HX-Refresh": "true"}))
        with page.expect_response("**/menus/shop/edit"):
            write(text, "id: shop # more")
        expect(text).to_have_text("id: shop # more")


def test_the_saved_draft_is_dialled_beside_its_text(visitor: Visitor) -> None:
    with visitor.tab(width=1280) as page:
        text = opened(page, "shop")
        page.get_by_role("button", name="Call").click()
        expect(page.locator("#lcd")).to_contain_text("Welcome to ACME")
        expect(page.locator(".diagram .lit")).to_have_attribute("data-node", "root")
        expect(text).to_contain_text("id: shop")
        visitor.look_at(page)
