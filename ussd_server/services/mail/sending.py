"""Sending of mails by the background worker.

A mail is claimed with a lease, sent outside every database transaction, and its result is written in one. After a crash
the lease expires and a worker sends it again: a recipient may get a mail twice, under one Message-ID.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import formataddr
from typing import TYPE_CHECKING, Any, Protocol

from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.database.unit_of_work import release_connection, unit_of_work
from ussd_server.languages import language_of
from ussd_server.logs import Logger, now_about
from ussd_server.models.clients import User
from ussd_server.models.operators import Operator
from ussd_server.models.sending import Mail
from ussd_server.outbound.smtp import MailTrouble, SmtpResult, SmtpServer, read_sender, read_smtp_url, sent_address
from ussd_server.outbound.transport import authorities
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.leases import end_lease, is_due, next_attempt, still_leased
from ussd_server.services.mail.messages import LINKS, TROUBLES, MailKind, MailStatus
from ussd_server.services.mail.texts import message_of, written_moment
from ussd_server.services.runtime import Runtime

if TYPE_CHECKING:
    from ussd_server.settings import Settings

log = Logger(__name__)

THREADS = 2
_LEASE_SECONDS = 90
_DELAYS_SECONDS = (60, 300, 900, 1800, 3600)
_WELCOME = "/console/welcome/"
_LATE = SmtpResult(MailTrouble.LATE, is_final=True)


class PasswordLinks(Protocol):
    """Makes the links that are mailed. A link is made when its mail is sent, and stored nowhere."""

    def link_to_mail(self, user_id: str, hash_digest: str, expires_at_seconds: int) -> str | None:
        """The secret part of a link that a colleague asked for; None when it has ended."""

    def link_for_forgotten(self, email: str, expires_at: datetime) -> tuple[User, str] | None:
        """A person and the secret part of a link that this person asked for; None when there is no such person."""


class MailSender:
    """Sends mails that are due. Any number of processes may share the work."""

    def __init__(self, runtime: Runtime, links: PasswordLinks) -> None:
        """Without a mail server nothing is claimed."""
        self._clock, self._leases, self._at_kill_point = runtime.clock, runtime.leases, runtime.at_kill_point
        self._server = smtp_server(runtime.settings)
        self._sender = runtime.settings.mail_from or ""
        self._public_url = runtime.settings.public_url or ""
        self._links = links

    def claim(self, limit: int) -> list[str]:
        """Lease up to `limit` mails that are due, oldest first, to this caller; give their ids."""
        if self._server is None:
            return []
        due = Mail.select(Mail.id).where(is_due(Mail, self._clock.now())).order_by(Mail.due_at).limit(limit)
        return [row.id for row in self._leases.claim(due, _LEASE_SECONDS)]

    def send(self, mail_id: str) -> None:
        row = Mail.get_or_none(Mail.id == mail_id)
        if row is None or row.lease_token is None or self._server is None:
            return
        now_about(mail_id=row.id)
        if self._clock.now() >= row.give_up_at and row.person_id is not None:
            self._apply_result(row, _LATE)
            return
        message = self._message(row)
        release_connection()
        if message is None:
            self._remove(row)
            return
        result = self._deliver(message, row.recipient) if isinstance(message, EmailMessage) else message
        self._at_kill_point("mail.sent")
        self._apply_result(row, result)

    def test(self, recipient: str) -> SmtpResult:
        assert self._server is not None
        message = EmailMessage()
        message["From"] = formataddr(read_sender(self._sender))
        message["Subject"] = "Test"
        message.set_content("This is a test of the mail server. Nothing needs to be done.\n")
        return self._deliver(message, recipient)

    def _deliver(self, message: EmailMessage, recipient: str) -> SmtpResult:
        assert self._server is not None
        try:
            message["To"] = address = sent_address(recipient)
        except ValueError:
            return SmtpResult(MailTrouble.MALFORMED, is_final=True)
        return self._server.send(message, read_sender(self._sender)[1], address)

    def _message(self, row: Mail) -> EmailMessage | SmtpResult | None:
        """The mail to send, the reason why it can never be sent, or None when no person may receive it."""
        parameters = dict(row.parameters)
        kind, reader = MailKind(row.kind), _reader(row.person_id)
        if kind is MailKind.PASSWORD_FORGOTTEN:
            link = self._links.link_for_forgotten(row.recipient, row.give_up_at)
            if link is None:
                return None
            if self._clock.now() >= row.give_up_at:
                return _LATE
            reader = link[0]
            parameters |= {"link": _WELCOME + link[1], "until": written_moment(row.give_up_at)}
        elif reader is None:
            return None
        elif kind in LINKS:
            expires_at = int(parameters.pop("expires_at"))
            token = self._links.link_to_mail(row.person_id, parameters.pop("digest"), expires_at)
            if token is None:
                return SmtpResult(MailTrouble.ENDED, is_final=True)
            until = datetime.fromtimestamp(expires_at, UTC)
            parameters |= {"link": _WELCOME + token, "until": written_moment(until)}
        with language_of(reader.language):
            return message_of(
                kind,
                parameters,
                public_url=self._public_url,
                sender=formataddr(read_sender(self._sender)),
                mail_id=row.id,
                created_at=row.created_at,
            )

    def _remove(self, row: Mail) -> None:
        """Remove a mail that no person may receive, so that neither its address nor the request for it is kept."""
        Mail.delete().where(Mail.id == row.id, Mail.lease_token == row.lease_token).execute()

    def _apply_result(self, sent: Mail, result: SmtpResult) -> None:
        now = self._clock.now()
        with unit_of_work():
            row = still_leased(sent)
            if row is None:
                return
            row.attempts += 1
            row.attempted_at = now
            end_lease(row)
            row.trouble, row.answer_code = result.trouble, result.code
            next_at = next_attempt(row, _DELAYS_SECONDS, now)
            if result.trouble is None:
                row.status = MailStatus.SENT
            elif result.is_final or next_at > row.give_up_at:
                row.status = MailStatus.FAILED
            is_waiting = row.status == MailStatus.WAITING
            row.due_at, row.completed_at = (next_at, None) if is_waiting else (None, now)
            row.save()
            if row.status == MailStatus.SENT and row.kind == MailKind.PASSWORD_FORGOTTEN:
                _write_link_mailed(row, now)
        if result.trouble is not None:
            said = TROUBLES[result.trouble]
            log.warning("a mail was not sent", kind=row.kind, trouble=said, code=result.code, status=row.status)


def _reader(person_id: str | None) -> Any:
    """The person, of a client or an operator, if they may still sign in."""
    people = (table.get_or_none(table.id == person_id, table.is_active) for table in (User, Operator))
    return next(filter(None, people), None)


def _write_link_mailed(row: Mail, now: datetime) -> None:
    person = User.get_or_none(User.email == row.recipient)
    if person is not None:
        context = RequestContext(Caller(CallerKind.NOBODY), address=row.parameters["address"])
        write_audit_event(
            "user.link_mailed",
            context,
            now,
            client_id=person.client_id,
            user_id=person.id,
            object_id=person.id,
            is_automatic=True,
        )


def smtp_server(settings: Settings, timeout_seconds: float = 30.0) -> SmtpServer | None:
    """The mail server, None where none is set up. Connects to nothing yet."""
    if settings.smtp_url is None:
        return None
    return SmtpServer(read_smtp_url(settings.smtp_url), authorities(settings.ca_file), timeout_seconds)
