"""The mails that a person receives, their language, and the state of mails."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.languages import languages
from ussd_server.models.clients import User
from ussd_server.models.operators import Operator
from ussd_server.models.sending import Mail, UnwantedMail
from ussd_server.outbound.smtp import MailTrouble
from ussd_server.services.mail.messages import LINKS, TROUBLES, ListMails, MailChoice, MailKind, MailView
from ussd_server.services.mail.texts import OPERATORS, TEXTS
from ussd_server.services.pages import matching, page_of
from ussd_server.services.runtime import Runtime
from ussd_server.status import Code, ServiceError
from ussd_server.wire import Page, view_of_row


class MailService:
    """Shows mails to operators and clients, and stores what people chose: kinds and language."""

    def __init__(self, runtime: Runtime) -> None:
        self._tokens, self._outbox = runtime.tokens, runtime.mail_outbox

    @property
    def is_on(self) -> bool:
        """Whether this installation sends mails."""
        return self._outbox.is_on

    def choices(self, context: RequestContext) -> tuple[MailChoice, ...]:
        """The kinds that the person who calls may switch off."""
        unwanted = {row.kind for row in UnwantedMail.select().where(UnwantedMail.person_id == context.caller.user_id)}
        return tuple(MailChoice(kind, TEXTS[kind].title, kind not in unwanted) for kind in _offered(context))

    def choose(self, wanted: Collection[str], context: RequestContext) -> None:
        """Receive the kinds that are named in `wanted`, of those that the person who calls may switch off."""
        person_id = context.caller.user_id
        with unit_of_work():
            for kind in _offered(context):
                chosen = (UnwantedMail.person_id == person_id) & (UnwantedMail.kind == kind)
                if kind in wanted:
                    UnwantedMail.delete().where(chosen).execute()
                else:
                    UnwantedMail.insert(person_id=person_id, kind=kind).on_conflict_ignore().execute()

    def choose_language(self, code: str, context: RequestContext) -> None:
        """Show pages and write mails in this language to the person who calls."""
        if code not in languages():
            raise ServiceError(Code.INVALID_REQUEST, "There is no such language.")
        table = Operator if context.caller.client_id is None else User
        table.update(language=code).where(table.id == context.caller.user_id).execute()

    def list(self, request: ListMails, context: RequestContext) -> Page[MailView]:
        """One page of all mails, newest first."""
        context.require_operator()
        rows = matching(Mail.select(), request, Mail.status)
        return page_of(rows, Mail, request, self._tokens, lambda mails: map(_view, mails))

    def last_of_person(self, user_id: str, context: RequestContext) -> MailView | None:
        """The last mail with a link that a colleague had sent to a person of the caller's client."""
        context.require("team:read")
        rows = Mail.select().where(Mail.person_id == user_id, Mail.client_id == context.client_id, Mail.kind.in_(LINKS))
        row = rows.order_by(Mail.id.desc()).first()
        return None if row is None else _view(row)


def _offered(context: RequestContext) -> list[MailKind]:
    """The kinds that the role of the caller receives and may switch off."""
    caller = context.caller
    roles = set(OPERATORS) if caller.client_id is None else {User.get_by_id(caller.user_id).role}
    return [kind for kind, text in TEXTS.items() if text.is_optional and roles.intersection(text.roles)]


def _view(row: Any) -> MailView:
    return view_of_row(
        MailView,
        row,
        mail_id=row.id,
        title=TEXTS[MailKind(row.kind)].title,
        trouble=_in_words(row),
        next_attempt_at=row.due_at if row.lease_token is None else None,
    )


def _in_words(row: Any) -> str | None:
    if row.trouble is None:
        return None
    return TROUBLES[MailTrouble(row.trouble)] + (f" ({row.answer_code})" if row.answer_code else "")
