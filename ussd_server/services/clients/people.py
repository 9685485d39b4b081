"""The people behind a caller: a payout is approved by other people than those who made it."""

from __future__ import annotations

from collections.abc import Collection

from ussd_server.models.clients import User


def people_behind(client_id: str, ids: Collection[str]) -> frozenset[str]:
    """The people of a client with these ids, and all who could have opened the links that set their passwords.

    Two sets that share a person count as one person. Disabled people count as well.
    """
    links = User.select(User.id, User.password_seen_by).where(
        User.client_id == client_id, User.password_seen_by.is_null(False)
    )
    seen_by = {row.id: row.password_seen_by for row in links}
    found, waiting = set[str](), list(ids)
    while waiting:
        person = waiting.pop()
        if person not in found:
            found.add(person)
            waiting.extend(seen_by.get(person, ()))
    return frozenset(found)
