"""Roles of a client's people: what each may do, which scopes it may give to a key, and which stands above which."""

from __future__ import annotations

from ussd_server.context import APPROVE, SEND
from ussd_server.services.clients.keys.messages import RESOURCES, SCOPES, expanded

_VIEWER = frozenset({"service_identifier:read", "payouts:read", "settings:read"})
_DEVELOPER = _VIEWER | {"api_keys:list", "api_keys:create", "api_keys:rotate", "payouts:write"}
_ALL = _DEVELOPER | {"api_keys:delete", "audit_events:read", APPROVE, "settings:write"}
PERMISSIONS: dict[str, frozenset[str]] = {
    "owner": _ALL,
    "admin": _ALL,
    "developer": _DEVELOPER,
    "viewer": _VIEWER,
}
"""What each role may do through the management API (wire contract 2).

`payouts:approve` also shows the secrets of keys that approve payouts or send money.
"""

GIVES_SCOPES: dict[str, frozenset[str]] = {
    "owner": SCOPES,
    "admin": SCOPES,
    "developer": SCOPES - {APPROVE, "payouts:*", SEND, "transactions:*"},
    "viewer": frozenset(),
}
"""The scopes that each role may give to a key."""

_LOOK = frozenset({
    "balance:read", "collection:read", "menus:read", "messages:read", "payouts:read", "search:read", "statements:read",
    "team:read", "transactions:read", "ussd:read", "webhooks:read",
})  # fmt: skip
_BUILD = _LOOK | {"collection:write", "menus:write", "payouts:write", "ussd:write", "webhooks:write"}
_DECIDE = _BUILD | {APPROVE, "team:write", "transactions:write", SEND}
PAGE_PERMISSIONS: dict[str, frozenset[str]] = {
    "owner": PERMISSIONS["owner"] | _DECIDE | {"bank_account:write"},
    "admin": PERMISSIONS["admin"] | _DECIDE,
    "developer": PERMISSIONS["developer"] | _BUILD,
    "viewer": PERMISSIONS["viewer"] | _LOOK,
}
"""What each role may do in the console: what it may do through the management API, and these.

`transactions:send` allows refunds and menus that send money. Only an owner states the bank account.
"""

OPERATOR = "operator"
_RANKS = {OPERATOR: 3, "owner": 2, "admin": 2, "developer": 1, "viewer": 0}


def is_below(role: str, other: str) -> bool:
    """Whether a role stands below another: operators above owners and admins, these above developers."""
    return _RANKS.get(role, 0) < _RANKS[other]


def may_give(role: str, scopes: str | None) -> bool:
    """Whether a role may give these scopes, as a key stores them, to a key; null are all but `payouts:approve`."""
    of_role = GIVES_SCOPES.get(role, frozenset())
    return role == OPERATOR or (bool(of_role) and expanded(scopes) <= expanded(" ".join(of_role)))


def widest_scopes(role: str) -> str | None:
    """What a new key of scopes null gets from this role: null, or the list of all scopes that the role may give."""
    if may_give(role, None):
        return None
    of_role = GIVES_SCOPES.get(role, frozenset())
    return " ".join(scope for resource in RESOURCES for scope in _of_resource(resource, of_role))


def _of_resource(resource: str, scopes: frozenset[str]) -> list[str]:
    whole = f"{resource}:*"
    return [whole] if whole in scopes else sorted(scope for scope in scopes if scope.startswith(f"{resource}:"))


def may_in_console(role: str, grant: str) -> bool:
    return grant in PAGE_PERMISSIONS.get(role, frozenset())
