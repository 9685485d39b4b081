"""Payments that wait because the settings no longer have the place to which they were sent."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from peewee import fn

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.transactions import Transaction
from ussd_server.providers.messages import Direction
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.operator_names import require_two_people
from ussd_server.services.providers.messages import AdoptedPlace, AdoptPlace
from ussd_server.services.providers.providers import Providers
from ussd_server.services.transactions.messages import UNFINISHED
from ussd_server.status import Code, ServiceError


def adopt(request: AdoptPlace, providers: Providers, context: RequestContext, now: datetime) -> AdoptedPlace:
    """Let a connection have the payments of another place, because two operators say that both are one.

    They are queried there, and sent again there if it does not find them: were it another place, they could be paid
    twice. Raises INVALID_REQUEST for an unknown connection, for a place that no payment was sent to, or one of another
    account, and unless two different people are named with a reason.
    """
    context.require_operator()
    decided_by = ", ".join(require_two_people(request.by, request.second, request.reason))
    connection = next((each for each in providers.connections if each.connection == request.connection), None)
    if connection is None:
        names = ", ".join(each.connection for each in providers.connections)
        raise ServiceError(Code.INVALID_REQUEST, f"connection: Must be one of: {names}.")
    with unit_of_work():
        of_place = (Transaction.provider == connection.name) & (Transaction.sent_to == request.old)
        if other := Transaction.get_or_none(of_place, Transaction.provider_account != connection.account):
            sentence = (
                f"connection: Its account is {connection.account}, and that of the payments {other.provider_account}."
            )
            raise ServiceError(Code.INVALID_REQUEST, sentence)
        count = sum(
            Transaction.update(sent_to=connection.place(direction))
            .where(of_place, Transaction.type == direction.value)
            .execute()
            for direction in Direction
        )
        if not count:
            raise ServiceError(Code.INVALID_REQUEST, f"No payment at {connection.name} was sent to: {request.old}")
        reason = f"{request.old} is {connection.connection}: {request.reason}"
        write_audit_event(
            "provider.adopted",
            context,
            now,
            client_id=None,
            object_id=connection.name,
            reason=reason,
            decided_by=decided_by,
        )
    return AdoptedPlace(connection.connection, count)


def waiting_elsewhere(providers: Providers) -> Mapping[str, Counter[str]]:
    """How many unfinished payments wait for each place that the settings do not have, by provider."""
    rows: Any = (
        Transaction.select(Transaction.provider, Transaction.type, Transaction.sent_to, fn.COUNT(Transaction.id))
        # Such a payment is always due again; the condition finds the index.
        .where(
            Transaction.due_at.is_null(False), Transaction.status.in_(UNFINISHED), Transaction.sent_to.is_null(False)
        )
        .group_by(Transaction.provider, Transaction.type, Transaction.sent_to)
    )
    waiting: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for name, kind, place, count in rows.tuples():
        if providers.of_payment(name, place, Direction(kind)) is None:
            waiting[name][place] += count
    return waiting
