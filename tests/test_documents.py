"""Every command, setting and code block of the documents is what the service has, or is run by a test."""

from __future__ import annotations

import json
import os
import re
import shlex
from dataclasses import fields
from pathlib import Path

import click
import pytest

from tests.documents.commands import PAGE, written_page
from ussd_server.cli import main
from ussd_server.outbound.client_server import Handover

REPOSITORY = Path(__file__).parents[1]
DOCS = REPOSITORY / "docs"
ABOVE = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "clients/README.md")
PAGES = [*(REPOSITORY / name for name in ABOVE), *sorted(DOCS.rglob("*.md"))]
LANGUAGES_OF_GUIDES = {"sh", "python", "javascript", "php", "text"}
# By page: the languages of its code blocks, which the test that is named runs or compares.
RUN = {
    "../README.md": {"mermaid", "sh", "json"},  # tests/journeys/test_guides.py; the first is a picture
    "API.md": {"text"},  # a conversation
    "MENUS.md": {"yaml", "json"},  # tests/menus/test_menus_document.py, and here
    "WEBHOOKS.md": {"python", "javascript"},  # tests/journeys/test_webhook_page.py
    "guides/README.md": {"sh", "php"},  # tests/journeys/test_guides.py
    **{
        f"guides/{page.name}": LANGUAGES_OF_GUIDES for page in (DOCS / "guides").glob("[a-z]*.md")
    },  # tests/journeys/test_guides.py
    "guides/give-your-service-a-pin.md": {"sh"},  # tests/journeys/test_guides.py
    "guides/take-money-at-a-till.md": {"sh"},  # tests/journeys/test_guides.py
    "guides/airtel.md": {"sh", "text"},  # tests/journeys/test_provider_guides.py
    "guides/move-from-africas-talking.md": {*LANGUAGES_OF_GUIDES, "yaml"},  # and tests/menus/test_menus_document.py
    "guides/mtn.md": {"sh", "text"},  # tests/journeys/test_provider_guides.py
}
COMMAND = re.compile(r"(?:\w+=\S+ )*ussd(?:-server)?(?= |$)")
TYPED = re.compile(r"^ {4,}(.+)$", re.MULTILINE)


def typed_lines(page: Path) -> list[str]:
    """The lines of a page that are indented as commands, outside fenced blocks and lists' own text."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [line.strip() for line in TYPED.findall(text)]


def parse(words: list[str]) -> None:
    """Follow a command line to its command and parse its options and arguments, without running anything."""
    command: click.Command = main
    context = click.Context(main)
    while isinstance(command, click.Group):
        if not words:
            return
        name = words[0] if command.name != "reconcile" or words[0] in command.commands else "statement"
        below = command.get_command(context, name)
        assert below is not None, words
        words = words if name == "statement" and words[0] != name else words[1:]
        command, context = below, click.Context(below, info_name=name)
    _, left, _ = command.make_parser(context).parse_args(list(words))
    assert left == []


def test_the_page_of_commands_is_what_help_shows() -> None:
    is_written = PAGE.read_text(encoding="utf-8") == written_page()
    assert is_written, f"run scripts/document: {PAGE}"


def test_every_command_line_of_a_document_can_be_parsed() -> None:
    seen = 0
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        inline = re.findall(r"`(ussd(?:-server)? [^`]+)`", text)
        for line in (*typed_lines(page), *inline):
            for part in re.split(r" && |; | \| ", line.partition("  # ")[0].partition(" > ")[0]):
                typed = COMMAND.match(part)
                if typed and "..." not in part and "…" not in part:
                    parse(shlex.split(part[typed.end() :].partition(" #")[0]))
                    seen += 1
    assert seen


def test_every_script_of_a_line_to_type_exists() -> None:
    for page in (REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"):
        for line in typed_lines(page):
            assert (REPOSITORY / line.split()[0]).is_file(), line


def test_every_setting_that_a_document_names_exists() -> None:
    known = set(re.findall(r"USSD_[A-Z_]+", (REPOSITORY / "deploy" / "environment.example").read_text()))
    named = {(page.name, name) for page in PAGES for name in re.findall(r"`(USSD_[A-Z_]+)", page.read_text())}
    assert named
    unknown = {(page, name) for page, name in named if name not in known and not name.endswith("_")}
    assert unknown == set(), "deploy/environment.example lacks a setting that a page names"


@pytest.mark.parametrize("page", [page for page in PAGES if "```" in page.read_text()], ids=lambda page: page.stem)
def test_every_code_block_is_of_a_kind_that_a_test_runs(page: Path) -> None:
    blocks = set(re.findall(r"^```(\w*)\n.*?^```$", page.read_text(), re.DOTALL | re.MULTILINE))
    assert blocks == RUN[os.path.relpath(page, DOCS)]


def test_the_handover_of_the_page_of_menus_is_what_is_sent() -> None:
    request, reply = re.findall(r"```json\n(.*?)```", (DOCS / "MENUS.md").read_text(), re.DOTALL)
    assert json.loads(request).keys() == {field.name for field in fields(Handover)}
    assert json.loads(reply).keys() == {"action", "message"}


def test_every_link_between_documents_leads_to_a_file() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
