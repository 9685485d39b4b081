"""The outbox of mails. Services write mails in the unit of work of the change; the worker sends them."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import repeat
from typing import Any

from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client, User
from ussd_server.models.operators import Operator
from ussd_server.models.sending import Mail, UnwantedMail, Webhook
from ussd_server.security import passwords
from ussd_server.services.mail.messages import LINKS, MailKind, MailStatus
from ussd_server.services.mail.texts import TEXTS, written_moment
from ussd_server.services.runtime import Runtime
from ussd_server.status import Code, ServiceError
from ussd_server.values import iso_milliseconds, new_id, new_id_floor

PATIENCE = timedelta(days=1)
"""How long the worker tries to send a mail."""

_HOUR = timedelta(hours=1)
_MOST_NOTICES_AN_HOUR = 200
_MOST_LINKS_OF_CLIENT_AN_HOUR = 300
_MOST_LINKS_AN_HOUR = 5
_WEBHOOKS_AT_ONCE = 200
_FAILING_FOR = timedelta(hours=1)
# After a longer pause of all workers, no mail is written about what began before.
_FAILING_AT_MOST = timedelta(days=1)


_NOTICES = [kind for kind, text in TEXTS.items() if text.is_optional]


class MailOutbox:
    """Writes mails; none while no mail server is set up (`USSD_SMTP_URL`)."""

    def __init__(self, is_on: bool) -> None:
        self.is_on = is_on

    def queue(
        self,
        kind: MailKind,
        recipient: str,
        parameters: Mapping[str, Any],
        now: datetime,
        *,
        client_id: str | None = None,
        person_id: str | None = None,
        occasion: str | None = None,
        patience: timedelta = PATIENCE,
        due_at: datetime | None = None,
    ) -> None:
        """Write one mail. Call in the unit of work of the change that it reports.

        `parameters` are those of the kind's text (`texts.py`), without secrets. Nothing happens when the recipient has
        a mail of this `occasion` already. It is sent at `due_at`, by default now, and given up `patience` later.
        """
        if not self.is_on:
            return
        Mail.insert(
            id=new_id(now),
            kind=kind,
            client_id=client_id,
            person_id=person_id,
            recipient=recipient,
            parameters=dict(parameters),
            occasion=occasion,
            status=MailStatus.WAITING,
            attempts=0,
            due_at=due_at or now,
            give_up_at=(due_at or now) + patience,
            created_at=now,
        ).on_conflict_ignore().execute()

    def report_removed_factor(self, person: User | Operator, by: str, now: datetime) -> None:
        """Write to a person whose second factor `by` removed or replaced. Call in the unit of work of the change."""
        client = Client.get_by_id(person.client_id) if isinstance(person, User) else None
        about = {"client": client.name if client else "the USSD console", "by": by, "at": written_moment(now)}
        self.queue(
            MailKind.SECOND_FACTOR_REMOVED,
            person.email,
            about,
            now,
            client_id=client.id if client else None,
            person_id=person.id,
        )

    def notify_people(
        self,
        kind: MailKind,
        client_id: str,
        parameters: Mapping[str, Any],
        now: datetime,
        *,
        occasion: str,
        without: Collection[str] = (),
    ) -> None:
        """Write a mail to each of the client's people whose role receives the kind, and who did not switch it off.

        `parameters` are those of the text but the client's name. People with an id in `without` get no mail. Of kinds
        that can be switched off a client gets 200 in an hour; later ones are put off. Call in the unit of work of the
        change.
        """
        if not self.is_on:
            return
        people = User.select().where(User.client_id == client_id, User.is_active, User.role.in_(TEXTS[kind].roles))
        people = people.where(User.password_hash != passwords.NONE_YET, User.id.not_in(_unwanting(kind)))
        about = {"client": Client.get_by_id(client_id).name, **parameters}
        moments = _free_moments(client_id, now) if TEXTS[kind].is_optional else repeat(now)
        for row, due_at in zip(people.where(User.id.not_in(list(without))).order_by(User.id), moments, strict=False):
            self.queue(
                kind, row.email, about, now, client_id=client_id, person_id=row.id, occasion=occasion, due_at=due_at
            )

    def notify_operators(self, kind: MailKind, parameters: Mapping[str, Any], now: datetime, *, occasion: str) -> None:
        """Write a mail to each operator who did not switch the kind off. Call in the unit of work."""
        if not self.is_on:
            return
        operators = Operator.select().where(Operator.is_active, Operator.id.not_in(_unwanting(kind)))
        for row in operators.order_by(Operator.id):
            self.queue(kind, row.email, parameters, now, person_id=row.id, occasion=occasion)

    def refuse_too_many(self, user: User, now: datetime) -> None:
        """Refuse another link with RATE_LIMIT_EXCEEDED.

        The limits are 5 links to a person and 300 of the client in the last hour. Call while no other request writes
        mails with links to this person.
        """
        if not self.is_on:
            return
        links = Mail.select(Mail.id).where(Mail.kind.in_(LINKS), Mail.id >= new_id_floor(now - _HOUR))
        of_person = links.where(Mail.person_id == user.id).count()
        of_client = links.where(Mail.client_id == user.client_id).count()
        if of_person >= _MOST_LINKS_AN_HOUR or of_client >= _MOST_LINKS_OF_CLIENT_AN_HOUR:
            raise ServiceError(
                Code.RATE_LIMIT_EXCEEDED,
                "Too many mails were sent in the last hour. Try again later.",
                retry_after_seconds=int(_HOUR.total_seconds()),
            )


class MailReminders:
    """Writes mails that no change causes: about webhooks that fail for an hour."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._outbox = runtime.clock, runtime.mail_outbox

    def write(self) -> None:
        """Write the reminders that are due now. Each is written once, by the first worker that finds it due."""
        if not self._outbox.is_on:
            return
        now, kind = self._clock.now(), MailKind.WEBHOOK_FAILING
        failing = Webhook.select().where(
            Webhook.is_active,
            Webhook.url.is_null(False),
            Webhook.failing_since <= now - _FAILING_FOR,
            Webhook.failing_since > now - _FAILING_AT_MOST,
        )
        for webhook in failing.order_by(Webhook.id).limit(_WEBHOOKS_AT_ONCE):
            occasion = f"{kind}/{webhook.id}/{iso_milliseconds(webhook.failing_since)}"
            if Mail.select(Mail.id).where(Mail.occasion == occasion).exists():
                continue
            about = {
                "url": webhook.url,
                "since": written_moment(webhook.failing_since),
                "page": f"/console/webhooks/{webhook.id}",
            }
            with unit_of_work():
                self._outbox.notify_people(kind, webhook.client_id, about, now, occasion=occasion)


def _unwanting(kind: MailKind) -> Any:
    """The ids of the people who switched a kind off; none for a kind that cannot be switched off."""
    return UnwantedMail.select(UnwantedMail.person_id).where(UnwantedMail.kind == kind)


def _free_moments(client_id: str, now: datetime) -> Iterator[datetime]:
    """The moments at which further notices of a client may be sent: each an hour after the one 200 places earlier."""
    notices = Mail.select(Mail.give_up_at).where(Mail.client_id == client_id, Mail.kind.in_(_NOTICES))
    newest = notices.order_by(Mail.id.desc()).limit(_MOST_NOTICES_AN_HOUR)
    moments = deque(row.give_up_at - PATIENCE for row in reversed(newest))
    while True:
        is_full = len(moments) >= _MOST_NOTICES_AN_HOUR
        moments.append(max(now, moments.popleft() + _HOUR) if is_full else now)
        yield moments[-1]
