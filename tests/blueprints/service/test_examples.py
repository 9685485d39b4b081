"""The examples of the OpenAPI document: every operation has them, and each fits its schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask

from ussd_server.api.document import api_document
from ussd_server.services.webhooks.messages import EVENT_TYPES
from ussd_server.status import Code

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

# They are documents themselves, or hold measurements.
WITHOUT_EXAMPLES = {"show_api_document", "show_menu_schema", "show_docs", "show_metrics"}


@pytest.fixture
def document(app: Flask) -> dict[str, Any]:
    return api_document(app)


def operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    return (item for methods in document["paths"].values() for item in methods.values())


def media_of(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every media type of a request, reply or webhook, and where it is."""
    for operation in (*operations(document), *(each["post"] for each in document["webhooks"].values())):
        places = {"request": operation.get("requestBody", {})} | operation["responses"]
        for place, content in places.items():
            for media in content.get("content", {}).values():
                yield f"{operation['operationId']} {place}", media
    for name, response in document["components"]["responses"].items():
        yield from ((name, media) for media in response["content"].values())


def test_every_example_fits_its_schema(document: dict[str, Any]) -> None:
    # Every process that collects this test would import it.
    from openapi_schema_validator import OAS31Validator, oas31_format_checker

    seen = 0
    for place, media in media_of(document):
        examples = [media["example"]] if "example" in media else []
        for example in media.get("examples", {}).values():
            name = example.get("$ref", "").rpartition("/")[2]
            examples.append((document["components"]["examples"][name] if name else example)["value"])
        validator = OAS31Validator(
            media["schema"] | {"components": document["components"]}, format_checker=oas31_format_checker
        )
        for example in examples:
            assert [error.message for error in validator.iter_errors(example)] == [], place
            seen += 1
    assert seen > 150


def test_every_operation_shows_its_body_and_each_of_its_successes(document: dict[str, Any]) -> None:
    for operation in operations(document):
        if operation["operationId"] in WITHOUT_EXAMPLES:
            continue
        if "requestBody" in operation:
            first, *_ = operation["requestBody"]["content"].values()
            assert "example" in first, operation["operationId"]
        for status, reply in operation["responses"].items():
            if "content" in reply:
                shown = [media for media in reply["content"].values() if "example" in media]
                assert shown, (operation["operationId"], status)


def test_both_paths_of_gateways_show_the_form_that_is_sent(document: dict[str, Any]) -> None:
    sent = {
        operation["operationId"]: operation["requestBody"]["content"]["application/x-www-form-urlencoded"]["example"]
        for operation in operations(document)
        if operation["tags"] == ["gateways"] and "requestBody" in operation
    }
    assert sent.keys() == {"take_step_post", "take_report"}
    assert sent["take_step_post"]["phoneNumber"] == "+256770000000"
    assert sent["take_report"]["status"] == "Success"


def test_every_refusal_that_a_request_can_cause_is_shown(document: dict[str, Any]) -> None:
    # No known request causes a bug, and no operation has a wrong method.
    unseen = {Code.INTERNAL_ERROR, Code.METHOD_NOT_ALLOWED}
    assert document["components"]["examples"].keys() == {code.error for code in Code if code not in unseen}
    for operation in operations(document):
        for status, response in operation["responses"].items():
            name = response.get("$ref", "").rpartition("/")[2]
            if not name or status == "500":
                continue
            shared = document["components"]["responses"][name]
            shown = shared["content"]["application/json"].get("examples", {})
            if name.startswith("Error"):
                assert set(shown) == set(re.findall("`(.*?)`", shared["description"])), name
                assert "x-permission" not in operation or all(
                    f"`{code}` ({status})" in operation["description"] for code in shown
                )
            elif operation["security"] and status in {"401", "403", "413", "415", "503"}:
                assert shown, (operation["operationId"], status)


def test_every_event_is_a_webhook_with_its_own_data_and_the_headers_of_its_signature(document: dict[str, Any]) -> None:
    assert document["webhooks"].keys() == EVENT_TYPES.keys()
    for event_type, methods in document["webhooks"].items():
        media = methods["post"]["requestBody"]["content"]["application/json"]
        fields = media["schema"]["properties"]
        assert fields["type"]["const"] == media["example"]["type"] == event_type
        record = document["components"]["schemas"][fields["data"]["$ref"].rpartition("/")[2]]
        assert record["properties"].keys() >= media["example"]["data"].keys() >= set(record["required"])
        names = [parameter["name"] for parameter in methods["post"]["parameters"]]
        assert names == ["webhook-id", "webhook-timestamp", "webhook-signature"]


def test_the_data_of_an_event_has_the_type_of_one_of_the_webhooks(document: dict[str, Any]) -> None:
    sent = {
        str(methods["post"]["requestBody"]["content"]["application/json"]["schema"]["properties"]["data"])
        for methods in document["webhooks"].values()
    }
    assert {str(choice) for choice in document["components"]["schemas"]["Event"]["properties"]["data"]["anyOf"]} == sent
