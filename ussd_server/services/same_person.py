"""The person who calls, and the people behind them: a payout must be approved by a person who did not make it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ussd_server.context import APPROVE, RequestContext
from ussd_server.models.clients import User
from ussd_server.status import Code, ServiceError

MAKE = "payouts:write"
ROLES_OF = {APPROVE: ("owner", "admin"), MAKE: ("owner", "admin", "developer")}
"""The roles that may approve payouts, and those that may make them (`PERMISSIONS` in `clients/auth.py`)."""


def present_role(context: RequestContext) -> str:
    """The role of the calling person as it is in the database now; empty for a person who is disabled.

    With the client's row locked it stays so until the unit of work ends, because changes of roles lock that row.
    """
    is_caller = (User.id == context.caller.user_id) & (User.client_id == context.client_id) & User.is_active
    return User.select(User.role).where(is_caller).scalar() or ""


def require_owner(context: RequestContext, refusal: str = "Only an owner may do this.") -> None:
    """Raise INSUFFICIENT_SCOPE unless the calling person is an owner now."""
    if present_role(context) != "owner":
        raise ServiceError(Code.INSUFFICIENT_SCOPE, refusal)


def people_behind(client_id: str, ids: Collection[str]) -> frozenset[str]:
    """The people with these ids, and all people who may use their logins.

    A person counts as the people who could have opened the link that set the password, and as the people who gave them
    their role, until another person has confirmed them. Two sets that share a person count as one person. Disabled
    people count as well.
    """
    return _closure(_counts_as(client_id), ids) if ids else frozenset()


def people_behind_caller(context: RequestContext) -> frozenset[str]:
    """The person who calls, and the people as whom they count; none behind the operator."""
    person = context.caller.user_id
    return frozenset() if person is None else people_behind(context.client_id, [person])


def ids_of_same_person(client_id: str, ids: Collection[str]) -> frozenset[str]:
    """The people of a client who count as one person with one of these, including these."""
    counts_as = _counts_as(client_id)
    wanted = _closure(counts_as, ids)
    return wanted | {person for person in counts_as if wanted & _closure(counts_as, [person])}


def require_can_confirm(person: User, context: RequestContext) -> None:
    """Raise INSUFFICIENT_SCOPE unless the caller may approve payouts and counts as another person than this one.

    Call with the client's row locked.
    """
    may = present_role(context) in ROLES_OF[APPROVE]
    if not may or is_one_person(person.client_id, context.caller.user_id or "", person.id):
        raise ServiceError(
            Code.INSUFFICIENT_SCOPE,
            "A person is confirmed by another person who may approve payouts, and who does not count as one with them.",
        )


def is_one_person(client_id: str, one: str, other: str) -> bool:
    return bool(people_behind(client_id, [one]) & people_behind(client_id, [other]))


def _counts_as(client_id: str) -> Mapping[str, frozenset[str]]:
    """As whom each person counts directly; people who count as themselves alone are left out."""
    people = User.select(User.id, User.password_seen_by, User.invited_by).where(
        User.client_id == client_id, User.password_seen_by.is_null(False) | User.invited_by.is_null(False)
    )
    return {row.id: (row.password_seen_by or frozenset()) | (row.invited_by or frozenset()) for row in people}


def _closure(counts_as: Mapping[str, frozenset[str]], ids: Collection[str]) -> frozenset[str]:
    people, waiting = set[str](), list(ids)
    while waiting:
        person = waiting.pop()
        if person not in people:
            people.add(person)
            waiting.extend(counts_as.get(person, ()))
    return frozenset(people)
