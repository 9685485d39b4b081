"""Every path serves the keys and the people that docs/reference/PERMISSIONS.md names, and no others."""

from __future__ import annotations

import re

import pytest
from flask import Flask
from flask.testing import FlaskClient

from tests.console.conftest import ConsoleVisitor
from tests.documents.permissions import PAGE, ROLES, api_paths, console_pages, roles_with, scopes_with, written_page
from tests.support.example_client import ExampleClient
from ussd_server.context import APPROVE
from ussd_server.services.clients.keys.messages import SCOPES
from ussd_server.services.roles import PAGE_PERMISSIONS, PERMISSIONS

# Who may do what is decided by the program, so that one database is enough.
pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

Headers = dict[str, str]
REFUSED = (401, 403)


def filled(path: str) -> str:
    """A path with an id that no object has in the place of each variable."""
    with_action = path.replace("{action}", "enable" if path.startswith("/console/people") else "required")
    return re.sub(r"\{[^}]+\}", "0190d7a5-0000-7000-8000-000000000000", with_action)


def served(web: FlaskClient, app: Flask, headers: Headers, is_for_keys: bool) -> set[tuple[str, str]]:
    """The paths that do not refuse a credential. A body that is not JSON is refused after the permission is checked."""
    # A logout ends the login, so it comes last.
    paths = sorted(api_paths(app), key=lambda each: "logout" in each.path)
    return {
        (each.method, each.path)
        for each in paths
        if each.is_for_keys is is_for_keys
        and web.open(filled(each.path), method=each.method, data=b"{", headers=headers).status_code not in REFUSED
    }


def test_the_page_of_permissions_is_what_the_program_declares(app: Flask) -> None:
    is_written = PAGE.read_text(encoding="utf-8") == written_page(app)
    assert is_written, f"run scripts/document: {PAGE}"


@pytest.mark.parametrize("role", ROLES)
def test_a_person_is_served_on_the_paths_of_their_role(
    app: Flask, web: FlaskClient, example_client: ExampleClient, role: str
) -> None:
    headers = example_client.browser(web, role).headers
    assert served(web, app, headers, is_for_keys=True) == set()
    assert served(web, app, headers, is_for_keys=False) == {
        (each.method, each.path)
        for each in api_paths(app)
        if not each.is_for_keys and role in roles_with(each.needs, PERMISSIONS)
    }


def test_a_key_is_served_on_the_paths_of_its_scopes(
    app: Flask, web: FlaskClient, example_client: ExampleClient
) -> None:
    for scope in (None, *sorted(SCOPES)):
        key = example_client.create_key(*([scope] if scope else []))
        headers = {"x-api-key": key.apikey, "x-api-secret": key.apisecret}
        assert served(web, app, headers, is_for_keys=False) == set(), scope
        assert served(web, app, headers, is_for_keys=True) == {
            (each.method, each.path)
            for each in api_paths(app)
            if each.is_for_keys
            and (
                each.needs is None
                or scope in scopes_with(each.needs)
                or (each.or_needs is not None and scope in scopes_with(each.or_needs))
                or (scope is None and each.needs != APPROVE)
            )
        }, scope


@pytest.mark.parametrize("role", ROLES)
def test_a_page_refuses_people_without_its_permission(app: Flask, example_client: ExampleClient, role: str) -> None:
    visitor = ConsoleVisitor(app.test_client())
    assert visitor.sign_in(example_client.email(role)).status_code == 303
    pages = console_pages(app)
    assert len(pages) > 60
    for method, path, needs in pages:
        is_permitted = role in roles_with(needs, PAGE_PERMISSIONS)
        below = filled(path).removeprefix("/console")
        if method == "GET":
            assert (visitor.get(below).status_code == 403) is not is_permitted, path
        elif not is_permitted:
            assert visitor.post(below).status_code == 403, path
