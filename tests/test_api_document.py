"""docs/API.md shows every path and every error code, each with a recorded request and reply."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from flask import Flask

from tests.documents.operations import operations
from tests.documents.steady import steady
from ussd_server.api.document import api_document
from ussd_server.status import Code

PAGE = (Path(__file__).parents[1] / "docs/API.md").read_text(encoding="utf-8")
REMEDY = "run scripts/document"
# The document is the same on both databases.
ON_SQLITE = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@ON_SQLITE
def test_every_operation_stands_with_its_request_and_its_answer(app: Flask) -> None:
    for operation in operations(api_document(app)):
        heading = f"### `{operation.method} {operation.path}`\n"
        assert heading in PAGE, f"{heading}: {REMEDY}"
        text = PAGE.partition(heading)[2].partition("\n### ")[0]
        assert operation.summary in text, f"{heading}: {REMEDY}"
        assert re.search(r"```sh\ncurl .*\n```\n\n```http\nHTTP/1.1 20[01] ", text, re.DOTALL), heading
        assert (operation.permission or "") in text


@pytest.mark.parametrize("code", Code)
def test_every_error_code_stands_with_an_answer_that_came(code: Code) -> None:
    text = PAGE.partition(f"#### `{code.error}`\n")[2].partition("\n#### ")[0]
    if code is Code.INTERNAL_ERROR:
        assert "none is shown" in text
        return
    assert f'"error": "{code.error}"' in text
    assert f"HTTP/1.1 {code.http_status} " in text


def test_every_link_within_the_page_leads_to_a_heading() -> None:
    headings = {
        re.sub(r"[^a-z0-9_ -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#(.*?)\)", PAGE)) <= headings


def test_writing_it_again_would_change_nothing_but_what_the_service_answers() -> None:
    assert steady(PAGE) == PAGE, REMEDY


def test_no_credential_is_shown() -> None:
    secrets = r"ussdsk_\w{8}|whsec_\w{8}|eyJ\w{12}|/(ussd/africastalking|callbacks/sandbox)/(?!\$)"
    assert not re.search(secrets, PAGE)
