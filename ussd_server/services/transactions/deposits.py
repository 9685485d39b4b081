"""Deposits: what clients paid the operator, credited to their main accounts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.ledger import DEPOSITS_ACCOUNT, legs_of
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.transactions.create import Prepared, RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.messages import (
    MAIN_ACCOUNT,
    CreateDeposit,
    CreatedTransaction,
    Source,
    TransactionType,
)
from ussd_server.services.transactions.transactions import require_description, require_reference
from ussd_server.status import Code, ServiceError


class DepositService:
    """Creates deposits, which are free."""

    def __init__(self, creator: TransactionCreator) -> None:
        self._creator = creator

    def create(self, request: CreateDeposit, context: RequestContext) -> CreatedTransaction:
        """Credit a client's main account with what it paid the operator; the same reference again changes nothing.

        The client's audit trail shows it. Raises INVALID_REQUEST for a reference or a description that is out of its
        bounds, NOT_FOUND for an unknown client, IDEMPOTENCY_KEY_REUSED for a reference of another deposit.
        """
        context.require("accounts:credit")
        require_reference(request.reference)
        require_description(request.description or "")
        digest = digest_of({"deposit": request.amount_cents, "reference": request.reference})
        content = {"amount_cents": request.amount_cents}
        identity = RequestIdentity(
            request.client_id, TransactionType.DEPOSIT, digest, request.reference, content=content
        )

        def prepare(identity: RequestIdentity) -> Prepared:
            if not Client.select().where(Client.id == request.client_id).exists():
                raise ServiceError(Code.NOT_FOUND, "Client not found")
            draft = self._creator.draft(
                identity,
                request.amount_cents,
                account=MAIN_ACCOUNT,
                description=request.description,
                request_id=context.request_id,
            )
            return draft, legs_of(draft.row, "move", DEPOSITS_ACCOUNT, MAIN_ACCOUNT, fee_from=DEPOSITS_ACCOUNT)

        @contextmanager
        def within(row: Transaction) -> Iterator[None]:
            with unit_of_work():
                yield
                write_audit_event(
                    "transaction.deposited",
                    context,
                    row.created_at,
                    client_id=request.client_id,
                    object_id=row.id,
                    reason=request.description,
                    amount_cents=row.amount_cents,
                )

        return self._creator.create(identity, prepare, Source.OPERATOR, within)
