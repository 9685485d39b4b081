"""What providers ask and report about payments that payers make by themselves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.incoming import IncomingPayment
from ussd_server.outbound.signature import is_signed
from ussd_server.runtime import Runtime, Service
from ussd_server.services.incoming.booking import (
    OWN_RECEIPT,
    IncomingBook,
    collection_of,
    find_code,
    locked_receipt,
    misfit_of,
    write_payment_event,
)
from ussd_server.services.incoming.messages import (
    CheckPayment,
    IncomingPaths,
    IncomingStatus,
    NotifiedPayment,
    NotifyPayment,
    PaymentCheck,
)
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.mail.outbox import notify_operators
from ussd_server.services.transactions.messages import SUCCESSFUL, Source
from ussd_server.status import Code, ServiceError
from ussd_server.values import kampala_day, written_amount


class NoticeService(Service):
    """Answers checks, and books what providers report: each receipt once, whatever is repeated."""

    def __init__(self, runtime: Runtime, book: IncomingBook) -> None:
        super().__init__(runtime)
        self._book = book

    def paths(self, context: RequestContext) -> list[IncomingPaths]:
        """The path and the signing secret of every provider that is switched on, for the operator to register there."""
        context.require_operator()
        return [
            IncomingPaths(
                each.name,
                self._tokens.incoming_path(each.name),
                self._tokens.incoming_signing_secrets(each.name)[-1],
            )
            for each in self._providers
        ]

    def require_path(self, provider: str, secret: str) -> None:
        """Raise NOT_FOUND for an unknown path."""
        if self._providers.get(provider) is None or not self._tokens.is_incoming_secret(provider, secret):
            raise ServiceError(Code.NOT_FOUND, "Not found")

    def require_signature(self, provider: str, headers: Mapping[str, str], body: bytes) -> None:
        """Raise INVALID_CREDENTIALS unless the provider signed a notice within five minutes."""
        if not is_signed(headers, body, self._tokens.incoming_signing_secrets(provider), self._clock.now()):
            raise ServiceError(Code.INVALID_CREDENTIALS, "The signature is wrong, missing or older than five minutes")

    def check(self, request: CheckPayment) -> PaymentCheck:
        """Whether a payment would be taken, and who is paid."""
        code = find_code(request.code)
        misfit = misfit_of(code, request.amount_cents, self._clock.now())
        if code is None or misfit is not None:
            return PaymentCheck(False, None, f"{misfit}.")
        return PaymentCheck(True, Client.get_by_id(code.client_id).name, code.description)

    def notify(self, request: NotifyPayment, context: RequestContext) -> NotifiedPayment:
        """Book a payment under its code, or hold it for the operators; a repeat changes nothing.

        A repeat books what is still held, if it fits by now. SERVICE_UNAVAILABLE while the operator holds new money.
        """
        now = self._clock.now()
        with unit_of_work():
            row, is_new = locked_receipt(
                request.provider, request.provider_transaction_id, now, amount_cents=request.amount_cents
            )
            if row.status == IncomingStatus.HELD:
                self._decide(row, request, context, now)
                if is_new and row.status == IncomingStatus.HELD:
                    _report_held(row, context, now)
        is_booked = row.status == IncomingStatus.BOOKED
        return NotifiedPayment(row.transaction_id, IncomingStatus.BOOKED if is_booked else IncomingStatus.HELD)

    def _decide(self, row: IncomingPayment, request: NotifyPayment, context: RequestContext, now: datetime) -> None:
        """Book the payment if it fits, else say why it is held."""
        ours = collection_of(row)
        if row.amount_cents != request.amount_cents:
            row.held_because = "It was reported with two amounts"
        elif ours is not None and ours.status in SUCCESSFUL and ours.amount_cents == row.amount_cents:
            # The provider reports also what was asked for here.
            self._book.mark_booked(row, ours.id)
            return
        elif ours is not None:
            row.held_because = OWN_RECEIPT
        else:
            row.code, row.phone_number, row.name = request.code, request.phone_number, request.name
            row.paid_at = request.at
            code = find_code(request.code, locked=True)
            misfit = misfit_of(code, row.amount_cents, now)
            if code is not None and misfit is None:
                self._book.book(row, code, Source.CALLBACK, context)
                return
            row.held_because = misfit
        row.updated_at = now
        row.save()


def _report_held(row: IncomingPayment, context: RequestContext, now: datetime) -> None:
    """Add a held payment to the operators' audit trail, and write them a mail, one a day."""
    write_payment_event("incoming.held", row, context, row.held_because, is_automatic=True)
    about = {"provider": row.provider, "amount": written_amount(row.amount_cents), "reason": row.held_because}
    about["page"] = "/console/operator/incoming"
    notify_operators(MailKind.INCOMING_HELD, about, now, occasion=f"incoming-held/{kampala_day(now)}")
