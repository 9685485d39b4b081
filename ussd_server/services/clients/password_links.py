"""Links by which people choose their password: when they are invited, and when they forgot it."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from ussd_server.clock import Clock
from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.clients import User
from ussd_server.security.tokens import PasswordLinkClaims, Tokens
from ussd_server.services.audit import write_audit_event
from ussd_server.services.clients.clients import hash_checked_password
from ussd_server.services.clients.logins import end_logins_of_user, is_client_active
from ussd_server.status import Code, ServiceError

LINK_LIFE = timedelta(days=3)


class PasswordLinkService:
    """Opens a password link. It is shown once, to the colleague who made it, who gives it to the person.

    Whoever could have opened the link counts as one with the person whose password it sets.
    """

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock

    def email_of(self, token: str) -> str:
        """The e-mail address of the person whose link this is. NOT_FOUND for a link that is used, old or forged."""
        return str(self._person(token).email)

    def choose_password(self, token: str, password: str, context: RequestContext) -> str:
        """Set the password, which ends the link and all logins; returns the e-mail address.

        NOT_FOUND for a link that is used, old or forged; INVALID_REQUEST for an invalid password.
        """
        self._person(token)
        password_hash = hash_checked_password(password)
        now = self._clock.now()
        with unit_of_work():
            row = self._person(token, is_locked=True)
            row.password_hash, row.updated_at = password_hash, now
            row.password_seen_by, row.link_seen_by = row.link_seen_by, None
            row.save(only=[User.password_hash, User.updated_at, User.password_seen_by, User.link_seen_by])
            end_logins_of_user(row.id, "password_changed", now)
            write_audit_event(
                "user.password_chosen", context, now, client_id=row.client_id, user_id=row.id, object_id=row.id
            )
        return str(row.email)

    def _person(self, token: str, *, is_locked: bool = False) -> User:
        claims = self._tokens.read_password_link(token)
        if claims is not None and claims.expires_at_seconds > self._clock.now().timestamp():
            found = User.select().where(User.id == claims.user_id, User.is_active)
            row: User | None = (for_update(found) if is_locked else found).first()
            if row is not None and digest_of(row) == claims.hash_digest and is_client_active(row.client_id):
                return row
        raise ServiceError(Code.NOT_FOUND, "This link was used already, or it is too old. Ask for another one.")


def new_link(tokens: Tokens, row: User, now: datetime) -> tuple[str, datetime]:
    """A password link for a person, and its end. It works until the person is changed in any way.

    `row.link_seen_by` is stored already: who is shown the link, as `people_behind` finds them; None for a link by mail.
    """
    expires_at = now + LINK_LIFE
    return tokens.issue_password_link(
        PasswordLinkClaims(row.id, digest_of(row), int(expires_at.timestamp()))
    ), expires_at


def digest_of(row: User) -> str:
    """Changes with every change of the person, and with who could have opened the link."""
    seen_by = "mail" if row.link_seen_by is None else " ".join(sorted(row.link_seen_by))
    content = f"{row.id} {row.password_hash} {row.updated_at.isoformat()} {seen_by}"
    return hashlib.sha256(content.encode()).hexdigest()[:32]
