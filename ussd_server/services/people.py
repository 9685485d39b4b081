"""The person who calls, and the people behind them: a payout must be approved by a person who did not make it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ussd_server.context import APPROVE, RequestContext
from ussd_server.models.clients import User

MAKE = "payouts:write"
ROLES_OF = {APPROVE: ("owner", "admin"), MAKE: ("owner", "admin", "developer")}
"""The roles that may approve payouts, and those that may make them (`PERMISSIONS` in `clients/auth.py`)."""


def present_role(context: RequestContext) -> str:
    """The role of the calling person as it is in the database now; empty for a person who is disabled.

    With the client's row locked it stays so until the unit of work ends, because changes of roles lock that row.
    """
    is_caller = (User.id == context.caller.user_id) & (User.client_id == context.client_id) & User.is_active
    return User.select(User.role).where(is_caller).scalar() or ""


def people_behind(client_id: str, ids: Collection[str]) -> frozenset[str]:
    """The people with these ids, and all people who could have opened the links that set their passwords.

    Two sets that share a person count as one person. Disabled people count as well.
    """
    return _closure(_seen_by(client_id), ids) if ids else frozenset()


def counted_as_one(client_id: str, ids: Collection[str]) -> frozenset[str]:
    """The people of a client who count as one person with one of these, including these."""
    seen_by = _seen_by(client_id)
    wanted = _closure(seen_by, ids)
    return wanted | {person for person in seen_by if wanted & _closure(seen_by, [person])}


def _seen_by(client_id: str) -> Mapping[str, frozenset[str]]:
    """Who could have opened the link that set the password, by the person whose password it is."""
    links = User.select(User.id, User.password_seen_by).where(
        User.client_id == client_id, User.password_seen_by.is_null(False)
    )
    return {row.id: row.password_seen_by for row in links}


def _closure(seen_by: Mapping[str, frozenset[str]], ids: Collection[str]) -> frozenset[str]:
    found, waiting = set[str](), list(ids)
    while waiting:
        person = waiting.pop()
        if person not in found:
            found.add(person)
            waiting.extend(seen_by.get(person, ()))
    return frozenset(found)
