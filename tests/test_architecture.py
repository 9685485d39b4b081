"""The code keeps its own rules: names, endpoints, schemas, permissions and settings."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from environs import Env
from flask import Flask

from ussd_server.api.document import PATH_VARIABLES
from ussd_server.api.endpoints import (
    EndpointSpec,
    allow_anyone,
    authenticate_access_token,
    authenticate_api_key,
)
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.services.clients.keys.messages import SCOPES
from ussd_server.settings import SettingsError, read_settings

REPOSITORY = Path(__file__).parents[1]
PACKAGE = REPOSITORY / "ussd_server"
EXAMPLE = REPOSITORY / "deploy" / "environment.example"
# A folder or a file between backticks: `docs/API.md`, `menus/`, `worker.py`.
PATH = re.compile(r"`((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|md|json|cfg|yml|sql))`")
# A media type, and files that exist only in an installation.
NOT_IN_REPOSITORY = {
    "application/json",
    "secrets.json",
    "var",
    "var/demo.json",
    ".venv/bin/ussd-server",
    "environments",
    "environments/MOMENT",
}

# An addition to these lists opens an endpoint without credentials, or leaves the API's envelopes: review it twice.
OPEN_TO_ANYBODY = {"/api/clients/login", "/api/clients/token/refresh", "/health/live", "/health/ready"}
_HARMLESS = ("/check", "/replay")
OTHER_LANGUAGES = ("/callbacks/<", "/ussd/<", "/metrics", "/openapi.json", "/menu.schema.json", "/docs")
REDIRECTED = {"/"}
# Everyone may end their own login, and a key sees itself. A search shows only the kinds that its caller may read.
WITHOUT_PERMISSION = {"/api/clients/logout", "/api/key", "/api/search"}
WITHOUT_DATA = {"/api/clients/logout"}
# The live part of the phone, and a page of keys that a form chooses.
PARTS_OF_PAGES = {"/phone/messages", "/api-keys/chosen"}
# For fault tests only; no operator should find it.
UNDOCUMENTED = {"USSD_KILL_POINT"}


def routes(app: Flask) -> Iterator[tuple[str, frozenset[str], EndpointSpec]]:
    """Every route of an API endpoint: its path, its methods and its declaration."""
    for rule in app.url_map.iter_rules():
        route = getattr(app.view_functions[rule.endpoint], "route", None)
        if route is not None:
            yield rule.rule, frozenset(rule.methods or ()), route


def test_no_two_public_classes_share_a_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for folder in (PACKAGE, REPOSITORY / "schemas", REPOSITORY / "simulators"):
        for path in folder.rglob("*.py"):
            for name in re.findall(r"^class ([A-Z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
                places[name].append(str(path.relative_to(REPOSITORY)))
    shared = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert not shared, f"rename one class of each pair: {shared}"


def test_only_logs_and_spans_are_switched_for_a_whole_process() -> None:
    switched = {path.name for path in PACKAGE.rglob("*.py") if re.search(r"^ +global ", path.read_text(), re.M)}
    assert switched == {"logs.py", "spans.py"}


def test_every_route_is_an_api_endpoint_or_states_its_other_format(app: Flask) -> None:
    for rule in app.url_map.iter_rules():
        view = app.view_functions[rule.endpoint]
        if rule.endpoint.startswith("console."):
            assert rule.rule.startswith("/console"), rule
        elif not hasattr(view, "route") and rule.rule not in REDIRECTED:
            assert rule.rule.startswith(OTHER_LANGUAGES), rule
            assert getattr(view, "replies_in", None), rule


def test_every_page_without_variables_is_looked_at_in_a_browser(app: Flask) -> None:
    looked_at = "".join(
        path.read_text(encoding="utf-8") for path in (REPOSITORY / "tests/console/browser").glob("*.py")
    )
    pages = {
        rule.rule.removeprefix("/console") or "/"
        for rule in app.url_map.iter_rules()
        if rule.endpoint.startswith("console.") and "GET" in (rule.methods or ()) and not rule.arguments
    }
    missing = {
        page
        for page in pages - PARTS_OF_PAGES
        if not page.endswith(".csv") and not re.search(f'"{page}["?]', looked_at)
    }
    assert not missing, f"add {', '.join(sorted(missing))} to tests/console/browser/test_pages.py"


def test_every_variable_of_a_path_has_a_meaning_in_the_api_document(app: Flask) -> None:
    for path, _, _ in routes(app):
        unknown = set(re.findall(r"<(?:[^:>]+:)?([^>]+)>", path)) - PATH_VARIABLES.keys()
        assert not unknown, f"{path}: add {', '.join(unknown)} to PATH_VARIABLES of api/document.py"


def test_every_path_has_the_authentication_of_its_prefix(app: Flask) -> None:
    for path, _, route in routes(app):
        if route.authenticate is allow_anyone:
            assert path in OPEN_TO_ANYBODY
        else:
            assert route.authenticate is (
                authenticate_access_token if path.startswith("/api/clients/") else authenticate_api_key
            ), path


def test_every_route_behind_a_lock_states_a_permission_that_exists(app: Flask) -> None:
    for path, methods, route in routes(app):
        if route.authenticate is allow_anyone or path in WITHOUT_PERMISSION:
            continue
        assert route.needs, (path, methods)
        if route.authenticate is authenticate_api_key:
            assert route.needs in SCOPES
            action = route.needs.partition(":")[2]
            # What changes nothing needs no right to write; a check and a replay of a menu are sent by POST.
            changes = {"/approve": "approve", "/refunds": "send", "/pin": "send"}.get(path[path.rindex("/") :], "write")
            assert action == (changes if methods.isdisjoint({"GET"}) and not path.endswith(_HARMLESS) else "read"), path


def test_every_route_states_what_it_takes_and_gives(app: Flask) -> None:
    for path, methods, route in routes(app):
        assert route.summary, (path, methods)
        assert route.reply_type is not None or path in WITHOUT_DATA, (path, methods)
        assert route.body is not None or methods.isdisjoint({"POST", "PUT", "PATCH"}), (path, methods)


def test_every_path_that_a_document_names_exists() -> None:
    named = {
        (document.name, path.rstrip("/"))
        for document in [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").glob("*.md")]
        for path in PATH.findall(document.read_text(encoding="utf-8"))
    }
    assert named
    assert {
        (name, path)
        for name, path in named
        if path not in NOT_IN_REPOSITORY and not any((place / path).exists() for place in (REPOSITORY, PACKAGE))
    } == set()


def test_every_setting_stands_in_the_example_and_nothing_else_does(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: set[str] = set()

    class Noting(Env):
        """An environment that notes what it is asked for."""

        def __getattribute__(self, name: str) -> Any:
            found = super().__getattribute__(name)
            if name not in ("str", "int", "bool", "float", "list", "path"):
                return found

            def note(setting: str, *args: Any, **kwargs: Any) -> Any:
                asked.add(f"USSD_{setting}")
                return found(setting, *args, **kwargs)

            return note

    for name in [name for name in os.environ if name.startswith("USSD_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))
    # Settings of a provider are read only when it is switched on; missing ones are refused after all were read.
    for name in PROVIDER_NAMES:
        monkeypatch.setenv(f"USSD_{name.upper()}_BASE_URL", f"https://{name}.example")
    monkeypatch.setenv("USSD_SMS_ADAPTER", "africastalking")
    monkeypatch.setattr("ussd_server.settings.Env", Noting)
    with pytest.raises(SettingsError):
        read_settings()
    listed = set(re.findall(r"^#?(USSD_[A-Z_]+)=", EXAMPLE.read_text(), re.MULTILINE))
    lacking, unread = sorted(asked - UNDOCUMENTED - listed), sorted(listed - asked)
    assert not lacking, f"deploy/environment.example lacks {', '.join(lacking)}"
    assert not unread, f"the server does not read {', '.join(unread)} of deploy/environment.example"


def test_the_example_of_an_environment_can_be_used_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in re.findall(r"^(USSD_[A-Z_]+)=(.*)$", EXAMPLE.read_text(), re.MULTILINE):
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingsError) as refused:
        read_settings()
    # Only what every installation has to make for itself is missing.
    assert {line.partition(":")[0] for line in str(refused.value).splitlines()} == {"USSD_SECRETS_FILE"}
