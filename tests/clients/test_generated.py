"""The client libraries and the Postman collection have what the OpenAPI document has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from tests.documents.api import files_of_the_api
from tests.documents.libraries import CLIENTS, operations
from tests.documents.postman import PAGE
from ussd_client import UssdClient
from ussd_server.api.document import api_document

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def document(app: Flask) -> dict[str, Any]:
    return api_document(app)


def test_the_generated_files_are_those_of_this_document(document: dict[str, Any]) -> None:
    files = files_of_the_api(document)
    assert files
    assert [path for path, text in files.items() if Path(path).read_text() != text] == [], "run scripts/document"


def test_each_operation_with_an_api_key_is_a_method_of_both_libraries(document: dict[str, Any]) -> None:
    by_key = {
        stated["operationId"]
        for methods in document["paths"].values()
        for stated in methods.values()
        if {"apiKey": [], "apiSecret": []} in stated["security"]
    }
    assert len(by_key) > 40
    assert {each.name for each in operations(document)} == by_key
    assert [name for name in by_key if not callable(getattr(UssdClient, name, None))] == []
    code = (CLIENTS / "javascript/operations.js").read_text()
    camel = {re.sub(r"_(\w)", lambda found: found.group(1).upper(), name) for name in by_key}
    assert camel <= set(re.findall(r"^  (\w+)\(", code, re.MULTILINE))


def test_the_collection_has_every_operation(document: dict[str, Any]) -> None:
    collection = json.loads(PAGE.read_text())
    requests = [item["request"] for folder in collection["item"] for item in folder["item"]]
    sent = {(each["method"], re.sub(r":(\w+)", r"{\1}", "/" + "/".join(each["url"]["path"]))) for each in requests}
    assert sent == {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
