"""The OpenAPI document is valid, complete and true, and the page made from it loads nothing from other machines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from jsonschema_rs import Draft202012Validator

from tests.conftest import MovableClock
from tests.faults.seeded_client import SeededClient
from tests.support.shop import shop_document
from ussd_server.api.document import api_document
from ussd_server.api.endpoints import allow_anyone, authenticate_access_token, authenticate_api_key
from ussd_server.bootstrap import Services
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.status import Code

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def document(app: Flask) -> dict[str, Any]:
    return api_document(app)


def routes(app: Flask) -> list[tuple[str, str, Any]]:
    """Path, method and statement of every route that states what it does."""
    return [
        (re.sub("<(.*?)>", r"{\1}", rule.rule), method.lower(), app.view_functions[rule.endpoint].route)
        for rule in app.url_map.iter_rules()
        for method in rule.methods - {"HEAD", "OPTIONS"}
        if hasattr(app.view_functions[rule.endpoint], "route")
    ]


def parts(part: Any) -> Iterator[dict[str, Any]]:
    """Every object within a part of the document, and the part itself."""
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from parts(each)
    if isinstance(part, dict):
        yield part


def test_the_document_is_valid_openapi(document: dict[str, Any]) -> None:
    assert document["openapi"] == "3.1.0"
    # Every process that collects this test would import it.
    from openapi_spec_validator import OpenAPIV31SpecValidator

    OpenAPIV31SpecValidator(document).validate()


def test_the_document_is_served_without_credentials(web: FlaskClient, document: dict[str, Any]) -> None:
    assert web.get("/openapi.json").json == document


def test_every_route_outside_the_console_is_in_the_document(app: Flask, document: dict[str, Any]) -> None:
    for rule in app.url_map.iter_rules():
        if not rule.endpoint.startswith("console.") and rule.rule != "/":
            methods = document["paths"][re.sub("<(?:.*:)?(.*?)>", r"{\1}", rule.rule)]
            assert {method.lower() for method in rule.methods - {"HEAD", "OPTIONS"}} <= methods.keys(), rule


def test_every_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    names = [item["operationId"] for methods in document["paths"].values() for item in methods.values()]
    assert len(set(names)) == len(names)
    assert all(item["summary"] for methods in document["paths"].values() for item in methods.values())


def test_each_kind_of_authentication_has_its_security_scheme_and_statuses(app: Flask, document: dict[str, Any]) -> None:
    expected = {
        authenticate_api_key: ([{"apiKey": [], "apiSecret": []}], {"400", "401", "403", "413", "429", "500", "503"}),
        authenticate_access_token: ([{"bearer": []}], {"400", "401", "413", "429", "500", "503"}),
        allow_anyone: ([], {"400", "413", "500", "503"}),
    }
    for path, method, route in routes(app):
        security, statuses = expected[route.authenticate]
        operation = document["paths"][path][method]
        assert operation["security"] == security
        assert statuses <= operation["responses"].keys(), path
        assert ("403" in operation["responses"]) == bool(route.needs or route.authenticate is authenticate_api_key), (
            path
        )
        assert ("415" in operation["responses"]) == (route.body is not None)
        assert ("requestBody" in operation) == bool(route.body and route.body.fields)
        assert ("404" in operation["responses"]) or "{" not in path


def test_every_program_needs_a_permission_for_everything(app: Flask) -> None:
    # A search shows only the kinds that its caller may read, and a key may always look at itself.
    assert [
        path for path, _, route in routes(app) if route.authenticate is authenticate_api_key and not route.needs
    ] == ["/api/search", "/api/key"]


def test_what_is_made_says_where_it_is(document: dict[str, Any]) -> None:
    for methods in document["paths"].values():
        for operation in methods.values():
            if "201" in operation["responses"]:
                assert "Location" in operation["responses"]["201"]["headers"]


def test_a_reply_that_asks_for_patience_says_how_long(document: dict[str, Any]) -> None:
    for name, response in document["components"]["responses"].items():
        is_retried = re.match("(Management)?Error(429|502|503)", name) is not None
        assert ("Retry-After" in response["headers"]) == is_retried
        assert "X-Request-Id" in response["headers"]


def test_every_error_code_is_listed_with_the_operations_that_answer_it(document: dict[str, Any]) -> None:
    operations = [item for methods in document["paths"].values() for item in methods.values()]
    listed = {code.error for code in Code if any(f"`{code.error}`" in item["description"] for item in operations)}
    # No operation has a wrong method. Management paths have one message for each status instead of codes.
    assert {code.error for code in Code} - listed == {"METHOD_NOT_ALLOWED"}
    assert document["components"]["schemas"]["ErrorCode"]["enum"] == [code.error for code in Code]


def test_providers_and_enumerations_have_one_name(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    places = [
        schema["properties"]["provider"] for schema in schemas.values() if "provider" in schema.get("properties", {})
    ]
    assert len(places) >= 4
    assert all("#/components/schemas/Provider'" in str(place) for place in places)
    assert schemas["Provider"]["enum"] == list(PROVIDER_NAMES)
    assert not re.findall("'enum': ", str({name: s.get("properties") for name, s in schemas.items()}))


def test_each_reply_has_a_type_of_its_own_and_no_union_of_all(document: dict[str, Any]) -> None:
    # Of the schema of menus nothing is generated.
    schemas = {name: each for name, each in document["components"]["schemas"].items() if name != "MenuDocument"}
    words = ("anyOf", "oneOf", "allOf")
    unions = [part[word] for part in parts([schemas, document["paths"]]) for word in words if word in part]
    # An event is about one of several kinds of objects; its type says which.
    assert [union for union in unions if len(union) > 3] == [schemas["Event"]["properties"]["data"]["anyOf"]]


def test_generators_of_clients_find_a_type_for_everything_and_write_no_file_twice(document: dict[str, Any]) -> None:
    def is_free(schema: dict[str, Any]) -> bool:
        return bool(schema.get("additionalProperties") is True or schema == {"$ref": "#/components/schemas/JsonObject"})

    schemas = {name: each for name, each in document["components"]["schemas"].items() if name != "MenuDocument"}
    for part in parts([schemas, document["paths"], document["webhooks"]]):
        # Go has no type for what is null alone, save as a constant; nothing tells one free object from another.
        assert {"type": "null"} not in part.get("properties", {}).values(), part
        assert all(sum(map(is_free, part.get(word, ()))) < 2 for word in ("anyOf", "oneOf")), part
    calls, events = (
        {item["tags"][0] for methods in document[section].values() for item in methods.values()}
        for section in ("paths", "webhooks")
    )
    # Each group is a file, and so is each schema, on file systems that fold letters.
    assert not calls & events
    assert len({name.lower() for name in schemas}) == len(schemas)


def test_no_example_asks_for_a_moment_that_is_past(document: dict[str, Any]) -> None:
    bodies = [item.get("requestBody", {}) for methods in document["paths"].values() for item in methods.values()]
    examples = str([media.get("example") for body in bodies for media in body.get("content", {}).values()])
    # A period is one that was.
    assert re.findall(r"'(\w+)': '20\d\d-", re.sub(r"'(from|to)': '[^']+'", "", examples)) == []


def test_every_group_of_operations_has_a_title_and_a_description(document: dict[str, Any]) -> None:
    described = [*document["paths"].values(), *document["webhooks"].values()]
    used = {item["tags"][0] for methods in described for item in methods.values()}
    assert used == {tag["name"] for tag in document["tags"] if tag["x-displayName"] and tag["description"]}


def test_every_parameter_and_every_field_of_a_record_has_a_meaning(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for operation in methods.values():
            assert all(parameter["description"] for parameter in operation["parameters"]), path
    for name, schema in document["components"]["schemas"].items():
        if name not in ("Error", "ManagementError"):
            assert all(field.get("description") for field in schema.get("properties", {}).values()), name


def test_what_is_answered_is_what_the_document_states(
    app: Flask, services: Services, web: FlaskClient, clock: MovableClock, document: dict[str, Any]
) -> None:
    # Every process that collects this test would import it.
    from openapi_schema_validator import OAS31Validator

    seeded_client = SeededClient(services, web, clock, "acme", "*384*1#")
    for path, method, route in routes(app):
        if method == "get":
            query = {"/api/search": "?q=order", "/api/subscribers": "?phone_number=%2B256772123456"}.get(path, "")
            reply = seeded_client.ask("GET", path.format(**seeded_client.ids) + query)
            stated = document["paths"][path][method]["responses"][str(route.status)]
            schema = stated["content"]["application/json"]["schema"] | {"components": document["components"]}
            assert reply.status_code == route.status, path
            assert not list(OAS31Validator(schema).iter_errors(reply.json)), path
            assert set(stated["headers"]) <= set(reply.headers.keys()), path


def test_a_menu_is_described_by_the_schema_of_menus(document: dict[str, Any], web: FlaskClient) -> None:
    stated = {"$ref": "#/components/schemas/MenuDocument", "components": document["components"]}
    for menu, is_right in (
        (shop_document(), True),
        (shop_document(start="1 x"), False),
        (shop_document(nodes={"bye": {"type": "end"}}), False),
        (shop_document(nodes={"bye": {"type": "set", "values": {"amount": None}, "goto": "root"}}), False),
    ):
        for schema in (stated, web.get("/menu.schema.json").json):
            assert Draft202012Validator(schema).is_valid(menu) == is_right


def test_the_page_of_the_api_loads_its_program_from_this_server(web: FlaskClient) -> None:
    page = web.get("/docs")
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
    assert not re.search(r"(src|href)=\"(https?:)?//", page.text)
    scripts = re.findall(r'<script src="(.*?)"', page.text)
    assert len(scripts) == 2
    for script in scripts:
        with web.get(script) as program:
            assert (program.status_code, program.mimetype) == (200, "text/javascript")


def test_the_bare_address_leads_browsers_to_the_page_and_programs_nowhere(web: FlaskClient) -> None:
    led = web.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (led.status_code, led.headers["Location"]) == (302, "/docs")
    for accept in ("*/*", "application/json"):
        refused = web.get("/", headers={"Accept": accept})
        assert (refused.status_code, refused.json["error"]) == (404, "NOT_FOUND")
