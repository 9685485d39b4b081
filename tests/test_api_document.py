"""The examples of the OpenAPI document are what the service replies, and every error code has its line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.documents.error_codes import PAGE as ERROR_CODES
from tests.documents.error_codes import written_page
from tests.documents.examples import PAGE as EXAMPLES
from tests.documents.examples import played_examples, written_examples
from tests.documents.steady import steady
from ussd_server.services.operations.book_check.history import FOLLOWERS
from ussd_server.status import Code

PAGE = (Path(__file__).parents[1] / "docs/API.md").read_text(encoding="utf-8")
REMEDY = "run scripts/document"


def is_like(example: Any, other: Any) -> bool:
    """Return whether two JSON values have the same fields and types. What is null in one may be known in the other."""
    if isinstance(example, dict) and isinstance(other, dict):
        return example.keys() == other.keys() and all(is_like(example[name], other[name]) for name in example)
    if isinstance(example, list) and isinstance(other, list):
        return bool(example) == bool(other) and all(map(is_like, example[:1], other[:1]))
    if isinstance(example, int | float) and isinstance(other, int | float):
        return isinstance(example, bool) == isinstance(other, bool)
    return example is None or other is None or type(example) is type(other)


def nameless(value: Any) -> Any:
    """A JSON value without the numbers of its ids: a slow service takes more polls, and so counts more of them."""
    return json.loads(re.sub(r"01900000-0000-7000-8000-[0-9]{12}", "ID", json.dumps(value)))


# By day, tests/blueprints/service/test_examples.py compares them with what the service declares.
@pytest.mark.nightly
@pytest.mark.slow
def test_each_example_is_sent_as_written_and_answered_as_written() -> None:
    written, played = written_examples(), played_examples()
    for kind in ("requests", "errors", "management_errors"):
        assert nameless(played[kind]) == nameless(written[kind]), f"{kind}: {REMEDY}"
    assert played["replies"].keys() == written["replies"].keys()
    for operation, replies in played["replies"].items():
        shown = written["replies"][operation]
        assert replies.keys() == shown.keys(), f"{operation}: {REMEDY}"
        for status, reply in replies.items():
            assert is_like(shown[status], reply), f"{operation} {status}: {REMEDY}"
            assert isinstance(reply, str) or reply.get("message") == shown[status].get("message"), operation


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": 1}, {"b": 1}),
        ({"a": 1}, {}),
        ({"a": "x"}, {"a": 1}),
        ({"a": [{"b": 1}]}, {"a": [{"b": True}]}),
        ([], [1]),
    ],
)
def test_an_example_of_another_shape_is_noticed(one: Any, other: Any) -> None:
    assert is_like(one, one)
    assert not is_like(one, other)


def test_writing_the_examples_again_changes_no_id_and_no_time() -> None:
    text = EXAMPLES.read_text(encoding="utf-8").partition('"webhooks"')[0]
    assert steady(text) == text, REMEDY


def test_no_credential_is_shown() -> None:
    secrets = r"ussdsk_\w{8}|whsec_\w{8}|eyJ\w{12}"
    assert not re.search(secrets, PAGE + EXAMPLES.read_text(encoding="utf-8"))


def test_the_page_of_error_codes_is_what_the_code_declares() -> None:
    assert ERROR_CODES.read_text(encoding="utf-8") == written_page(), REMEDY
    assert all(f"`{code.error}`" in written_page() for code in Code)


def test_the_page_names_every_message_of_key_management_that_is_shown() -> None:
    shown = written_examples()["management_errors"].values()
    messages = {message for statuses in shown for found in statuses.values() for message in found}
    # The same for every endpoint, and for both envelopes.
    of_statuses = {m for statuses in shown for s in ("413", "415", "503") for m in statuses.get(s, ())}
    rows = set(re.findall(r"^\| \d{3} \| ([A-Z].+?) \| ", written_page(), re.MULTILINE))
    assert {message.partition(":")[0] for message in messages - of_statuses} <= rows | {"Payout not found"}


def test_every_link_within_the_page_leads_to_a_heading() -> None:
    headings = {
        re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#(.*?)\)", PAGE)) <= headings


def test_the_table_of_payment_states_has_every_step_that_a_payment_may_take() -> None:
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \|([^|]*)\| [^|]*\|$", PAGE.partition("| may become |")[2], re.MULTILINE)
    steps = {state: set(re.findall(r"`(\w+)`", following)) for state, following in rows[: len(FOLLOWERS)]}
    assert steps == FOLLOWERS
