"""Personal data of a phone number: its export, and its erasure as far as the law allows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any

from peewee import fn

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import long_unit_of_work
from ussd_server.models.clients import AuditEvent, Client
from ussd_server.models.incoming import PaymentCode
from ussd_server.models.keys import ApiRequest
from ussd_server.models.ledger import Account
from ussd_server.models.movements import Movement
from ussd_server.models.payouts import PayoutItem
from ussd_server.models.providers import SubscriberName
from ussd_server.models.sending import Sms
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import SubscriberLanguage, SubscriberPin, UssdSession
from ussd_server.services.accounts.balances import accounts_of, transactions_of
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.operator_names import require_two_people
from ussd_server.services.runtime import Runtime
from ussd_server.services.subscribers.messages import ErasedData, ErasePersonalData, PersonalData
from ussd_server.services.subscribers.pins import subscriber_number
from ussd_server.services.ussd.endings import remove_events, remove_sessions
from ussd_server.services.ussd.messages import SessionStatus
from ussd_server.status import Code, ServiceError
from ussd_server.wire import columns_of

WHY_KEPT = (
    "Records of payments and the audit trail are kept: the laws on payments, taxes and money laundering oblige the "
    "operator to keep them for years."
)
_SESSIONS_AT_ONCE = 500
# To look through the bodies of refused requests takes longer than other statements.
_STATEMENT_TIMEOUT_MS = 60_000
_BETWEEN_DIGITS = " \u00a0-().'"

_REMOVED: Mapping[str, Any] = {
    "ussd_sessions": UssdSession,
    "messages": Sms,
    "subscriber_languages": SubscriberLanguage,
    "subscriber_names": SubscriberName,
    "subscriber_pins": SubscriberPin,
}
_KEPT: Mapping[str, Any] = {
    "transactions": Transaction,
    "accounts": Account,
    "payment_codes": PaymentCode,
    "movements": Movement,
    "payout_items": PayoutItem,
    "audit_events": AuditEvent,
}
# What only identifies or protects calls says nothing about the person.
_NOT_EXPORTED = frozenset(
    {"idempotency_key", "request_digest", "lease_token", "working_token", "state", "pin_sealed", "last_step"}
)


class PersonalDataService:
    """Exports and erases what is held about a phone number, for operators."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock

    def export(self, phone_number: str, context: RequestContext) -> PersonalData:
        """All rows about a phone number, of all clients. INVALID_PHONE_NUMBER for what is none.

        Entries of sessions are shown as they are kept: secret ones as stars.
        """
        context.require_operator()
        number = subscriber_number(phone_number)
        now = self._clock.now()
        held = {
            name: [_shown(row) for row in _about(table, number).iterator()]
            for name, table in {**_REMOVED, **_KEPT}.items()
        }
        is_named = reduce(or_, _in_requests(number).values())
        with long_unit_of_work(_STATEMENT_TIMEOUT_MS):
            held["api_requests"] = [_shown(row) for row in ApiRequest.select().where(is_named)]
        write_audit_event("subscriber.exported", context, now, client_id=None, phone_number=number)
        return PersonalData(number, held)

    def erase(self, request: ErasePersonalData, context: RequestContext) -> ErasedData:
        """Remove sessions with their transcripts, messages, names, the language and kept bodies of refused requests.

        The books of money are kept.

        INVALID_PHONE_NUMBER for what is none, INVALID_REQUEST unless two people stand by it with a reason, and while a
        session of the number is open.
        """
        context.require_operator()
        number = subscriber_number(request.phone_number)
        names = require_two_people(request.by, request.second, request.reason)
        now = self._clock.now()
        if _about(UssdSession, number).where(UssdSession.status == SessionStatus.ACTIVE).exists():
            raise ServiceError(Code.INVALID_REQUEST, "A session of this number is open; try again when it has ended")
        with long_unit_of_work(_STATEMENT_TIMEOUT_MS):
            removed = {"ussd_sessions": _remove_sessions(number)}
            for name in ("subscriber_languages", "subscriber_names"):
                table = _REMOVED[name]
                removed[name] = table.delete().where(table.phone_number == number).execute()
            removed["messages"] = Sms.delete().where(_of_any_client(Sms), Sms.phone_number == number).execute()
            named = (PayoutItem.phone_number == number) & PayoutItem.registered_name.is_null(False)
            pin_ids = [row.id for row in _about(SubscriberPin, number)]
            remove_events(pin_ids)
            removed["subscriber_pins"] = SubscriberPin.delete().where(SubscriberPin.id.in_(pin_ids)).execute()
            removed["registered_names"] = PayoutItem.update(registered_name=None).where(named).execute()
            moved = (Movement.phone_number == number) & Movement.name.is_null(False)
            removed["names_of_payers"] = Movement.update(name=None).where(moved).execute()
            requests = _in_requests(number)
            removed["bodies_of_requests"] = ApiRequest.update(body=None).where(requests["body"]).execute()
            # The sentence of a refusal may name a field.
            ApiRequest.update(message="***").where(requests["message"]).execute()
            ApiRequest.update(object_id=None).where(requests["object_id"]).execute()
            write_audit_event(
                "subscriber.erased",
                context,
                now,
                client_id=None,
                phone_number=number,
                reason=request.reason.strip(),
                decided_by=", ".join(names),
            )
        kept = {name: _about(table, number).count() for name, table in _KEPT.items()}
        return ErasedData(number, removed, kept, WHY_KEPT)


def _in_requests(number: str) -> Mapping[str, Any]:
    """For each column of the request log that may have a number, the condition that it has this one."""
    return {
        "body": _has(ApiRequest.body, number),
        "message": _has(ApiRequest.message, number),
        "object_id": ApiRequest.object_id == number,
    }


def _has(text: Any, number: str) -> Any:
    """The condition that a text has a number, with or without its country code, however written."""
    digits = reduce(lambda digits, mark: fn.REPLACE(digits, mark, ""), _BETWEEN_DIGITS, text)
    return digits.contains(number[-9:])


def _remove_sessions(number: str) -> int:
    removed, step = 0, 1
    while step:
        rows = _about(UssdSession, number).limit(_SESSIONS_AT_ONCE)
        step = remove_sessions([row.id for row in rows])
        removed += step
    return removed


def _about(table: Any, number: str) -> Any:
    """The rows of a table about a phone number: by client where an index begins with the client."""
    if table is Account:
        return accounts_of(number)
    if table is PaymentCode:
        return table.select().where(_of_any_client(table), table.account == number)
    rows = table.select().where(table.phone_number == number)
    if table is Transaction:
        return table.select().where(table.id.in_(transactions_of(number, _of_any_client(table))))
    return rows.where(_of_any_client(table)) if table in (UssdSession, Sms, SubscriberPin) else rows


def _of_any_client(table: Any) -> Any:
    """The condition that lets an index serve which begins with the client."""
    return table.client_id.in_(Client.select(Client.id))


def _shown(row: Any) -> dict[str, Any]:
    return {name: value for name, value in columns_of(row).items() if name not in _NOT_EXPORTED and value is not None}
