"""Links by which people choose their password: when they are invited, and when they forgot it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from datetime import datetime, timedelta

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.limits.networks import network_of
from ussd_server.models.clients import User, is_client_active
from ussd_server.security.tokens import PasswordLinkClaims, Tokens
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.clients.people_rows import end_logins_of_user, moved_on
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.runtime import Runtime
from ussd_server.services.sign_in import checked_email, hash_checked_password
from ussd_server.status import Code, ServiceError

LINK_LIFE = timedelta(days=3)
FORGOTTEN_LINK_LIFE = timedelta(hours=1)


class PasswordLinkService:
    """Takes requests for password links, makes those that are mailed (`services/mail/sending.py`), and opens them.

    The people to whom a link was shown count as one with the person whose password it sets. A link by mail adds none,
    and takes none away.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._outbox = runtime.mail_outbox
        self._clock, self._tokens, self._limiter = runtime.clock, runtime.tokens, runtime.limiter

    def email_of(self, token: str) -> str:
        """The e-mail address of the person whose link this is. NOT_FOUND for a link that is used, old or forged."""
        return str(self._open(token)[0].email)

    def choose_password(self, token: str, password: str, context: RequestContext) -> str:
        """Set the password, end the link and all logins, and return the e-mail address.

        NOT_FOUND for a link that is used, old or forged; INVALID_REQUEST for an invalid password.
        """
        self._open(token)
        password_hash = hash_checked_password(password)
        now = self._clock.now()
        with unit_of_work():
            row, seen_by = self._open(token, is_locked=True)
            row.password_hash, row.updated_at = password_hash, moved_on(row, now)
            # A link by mail makes no second person: only a confirmation or an operator's command does.
            row.password_seen_by = (row.password_seen_by or frozenset()).union(seen_by or ()) or None
            row.link_seen_by = None
            row.save(only=[User.password_hash, User.updated_at, User.password_seen_by, User.link_seen_by])
            end_logins_of_user(row.id, "password_changed", now)
            write_audit_event(
                "user.password_chosen", context, now, client_id=row.client_id, user_id=row.id, object_id=row.id
            )
        return str(row.email)

    def request(self, email: str, context: RequestContext) -> None:
        """Have a link mailed to a person who forgot the password, if the address belongs to a person who may sign in.

        Does the same for every address, so that a caller learns nothing: the worker looks for the person later. From
        the fourth request for an address within an hour, nothing is sent. INVALID_REQUEST for a malformed address;
        RATE_LIMIT_EXCEEDED (429) after too many requests from one network.
        """
        email = checked_email(email)
        decision = self._limiter.hit("forgotten-network", network_of(context.address))
        if not decision.accepted:
            raise ServiceError(
                Code.RATE_LIMIT_EXCEEDED,
                "Too many requests. Please wait a while.",
                retry_after_seconds=decision.retry_after_seconds,
            )
        if not self._limiter.hit("forgotten-person", email).accepted:
            return
        with unit_of_work():
            self._outbox.queue(
                MailKind.PASSWORD_FORGOTTEN,
                email,
                {"address": context.address or "unknown"},
                self._clock.now(),
                patience=FORGOTTEN_LINK_LIFE,
            )

    def link_to_mail(self, user_id: str, hash_digest: str, expires_at_seconds: int) -> str | None:
        """The secret part of a link that a colleague had sent to a person; None when it was used or has ended."""
        token = self._tokens.issue_password_link(PasswordLinkClaims(user_id, hash_digest, expires_at_seconds))
        try:
            self._open(token)
        except ServiceError:
            return None
        return token

    def link_for_forgotten(self, email: str, expires_at: datetime) -> tuple[User, str] | None:
        """A person and the secret part of a link until `expires_at`; None unless this person may sign in."""
        row: User | None = User.get_or_none(User.email == email, User.is_active)
        if row is None or not is_client_active(row.client_id):
            return None
        claims = PasswordLinkClaims(row.id, digest_of(row, None), int(expires_at.timestamp()))
        return row, self._tokens.issue_password_link(claims)

    def _open(self, token: str, *, is_locked: bool = False) -> tuple[User, Collection[str] | None]:
        """The person whose link this is, and the people to whom it was shown; None for a link by mail."""
        claims = self._tokens.read_password_link(token)
        if claims is not None and claims.expires_at_seconds > self._clock.now().timestamp():
            query = User.select().where(User.id == claims.user_id, User.is_active)
            row: User | None = (for_update(query) if is_locked else query).first()
            if row is not None and is_client_active(row.client_id):
                # A mailed link works beside one that was shown, so that a request for one does not end the other.
                for seen_by in (row.link_seen_by, None):
                    if digest_of(row, seen_by) == claims.hash_digest:
                        return row, seen_by
        raise ServiceError(Code.NOT_FOUND, "This link was used already, or it is too old. Ask for another one.")


def new_link(tokens: Tokens, row: User, now: datetime) -> tuple[str, datetime]:
    """A password link to show, and the time it expires. Any change of the person ends it.

    `row.link_seen_by` is stored already: the people to whom the link is shown, as `people_behind` finds them.
    """
    expires_at = now + LINK_LIFE
    return tokens.issue_password_link(
        PasswordLinkClaims(row.id, digest_of(row, row.link_seen_by), int(expires_at.timestamp()))
    ), expires_at


def digest_of(row: User, seen_by: Collection[str] | None) -> str:
    """A digest that changes with the person's row, and with the people to whom the link is shown (None: mailed)."""
    shown_to = "mail" if seen_by is None else " ".join(sorted(seen_by))
    content = f"{row.id} {row.password_hash} {row.updated_at.isoformat()} {shown_to}"
    return hashlib.sha256(content.encode()).hexdigest()[:32]
