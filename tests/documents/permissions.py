"""Writes docs/reference/PERMISSIONS.md: which key and which person each API path and each console page serves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from flask import Flask

from ussd_server.api.endpoints import authenticate_access_token, authenticate_api_key, template_of
from ussd_server.context import APPROVE
from ussd_server.services.clients.keys.messages import SCOPES
from ussd_server.services.roles import GIVES_SCOPES, PAGE_PERMISSIONS, PERMISSIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "PERMISSIONS.md"
ROLES = tuple(PERMISSIONS)
_HEAD = """# Permissions

What each kind of caller may do. `scripts/document` writes this page from the program's declarations. Tests call every
path with every role and with a key of every scope, and compare. Others walk through thousands of actions from each role
(making, listing, changing and rotating keys; inviting and confirming people, opening their links, changing roles) and
find no chain that gives more than the role, and no person who makes and approves a payout alone, unless the operator
ends that readers of secrets count as people behind a key (`ussd-server clients readers CLIENT --ignore`).

## Roles

| role | permissions | scopes it may give to a key |
| --- | --- | --- |
"""
_OF_OWNERS_AND_NULL = """
A key with scopes null has every scope but `payouts:approve`; a new one of a developer gets the list of what developers
may give. Collections need `transactions:write`; disbursements, transfers, refunds and menus that send money need
`transactions:send`. Only an owner makes an owner, and changes one.
"""


class ApiPath(NamedTuple):
    """An API path that asks for a key or for a person; of two permissions that it names, one is enough."""

    method: str
    path: str
    needs: str | None
    is_for_keys: bool
    or_needs: str | None = None


def api_paths(app: Flask) -> list[ApiPath]:
    """The API paths that need a credential."""
    found = []
    for rule in app.url_map.iter_rules():
        route = getattr(app.view_functions[rule.endpoint], "route", None)
        if route is not None and route.authenticate in (authenticate_api_key, authenticate_access_token):
            (method,) = (rule.methods or set()) - {"HEAD", "OPTIONS"}
            is_for_keys = route.authenticate is authenticate_api_key
            found.append(ApiPath(method, template_of(rule.rule), route.needs, is_for_keys, route.or_needs))
    return sorted(found, key=lambda each: (each.path, each.method))


def console_pages(app: Flask) -> list[tuple[str, str, str | None]]:
    """Method, path and permission of each page for a client's people."""
    pages = []
    for rule in app.url_map.iter_rules():
        view: Any = app.view_functions[rule.endpoint]
        if rule.endpoint.startswith("console.") and getattr(view, "who", None) == "client":
            (method,) = (rule.methods or set()) - {"HEAD", "OPTIONS"}
            pages.append((method, template_of(rule.rule), view.needs))
    return sorted(pages, key=lambda each: (each[1], each[0]))


def roles_with(permission: str | None, permissions: dict[str, frozenset[str]]) -> list[str]:
    """The roles that have a permission; every role where none is needed."""
    return [role for role in ROLES if permission is None or permission in permissions[role]]


def scopes_with(permission: str | None) -> list[str]:
    """The scopes of which one is enough, beside null where the permission is not the approval of payouts."""
    return sorted(SCOPES & {permission or "", f"{(permission or '').partition(':')[0]}:*"})


def written_page(app: Flask) -> str:
    """Return the page."""
    paths = api_paths(app)
    return "".join([
        _HEAD,
        *(f"| {role} | {_listed(PAGE_PERMISSIONS[role])} | {_listed(GIVES_SCOPES[role])} |\n" for role in ROLES),
        _OF_OWNERS_AND_NULL,
        "\n## API paths for keys\n\n| request | scope, or its resource with `*` | scopes null |\n| --- | --- | --- |\n",
        *(_of_keys(each) for each in paths if each.is_for_keys),
        "\n## API paths for people\n\n| request | permission | roles |\n| --- | --- | --- |\n",
        *_of_people([(each.method, each.path, each.needs) for each in paths if not each.is_for_keys], PERMISSIONS),
        "\n## Pages of the console\n\n| request | permission | roles |\n| --- | --- | --- |\n",
        *_of_people(console_pages(app), PAGE_PERMISSIONS),
    ])  # fmt: skip


def write_permissions(app: Flask) -> None:
    """Replace the page."""
    PAGE.write_text(written_page(app), encoding="utf-8")


def _of_keys(path: ApiPath) -> str:
    needs = " or ".join(f"`{each}`" for each in (path.needs, path.or_needs) if each) or "any"
    return f"| `{path.method} {path.path}` | {needs} | {'no' if path.needs == APPROVE else 'yes'} |\n"


def _of_people(requests: list[tuple[str, str, str | None]], permissions: dict[str, frozenset[str]]) -> Iterator[str]:
    for method, path, needs in requests:
        roles = roles_with(needs, permissions)
        named = "all" if len(roles) == len(ROLES) else ", ".join(roles)
        yield f"| `{method} {path}` | {f'`{needs}`' if needs else 'none'} | {named} |\n"


def _listed(permissions: frozenset[str]) -> str:
    return " ".join(f"`{each}`" for each in sorted(permissions)) or "none"
