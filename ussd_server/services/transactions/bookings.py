"""Deposits: what clients paid the operator."""

from __future__ import annotations

from contextlib import AbstractContextManager

from ussd_server.context import RequestContext
from ussd_server.models.clients import Client
from ussd_server.models.operations import note_credit_in_sandbox
from ussd_server.models.transactions import Transaction
from ussd_server.services.accounts.ledger import DEPOSITS_ACCOUNT
from ussd_server.services.operator_names import require_name
from ussd_server.services.pages import require_row
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.audited import audited
from ussd_server.services.transactions.create import DraftColumns, Plan, RequestIdentity, TransactionCreator, digest_of
from ussd_server.services.transactions.messages import (
    MAIN_ACCOUNT,
    CreateDeposit,
    CreatedTransaction,
    Source,
    TransactionType,
)
from ussd_server.services.transactions.transactions import RETURNED_SETTLEMENT, require_description, require_reference
from ussd_server.status import Code, ServiceError


class DepositService:
    """Creates deposits, which are free: what clients paid the operator, credited to their main accounts."""

    def __init__(self, runtime: Runtime, creator: TransactionCreator) -> None:
        self._creator, self._references = creator, runtime.references
        self._is_sandbox = runtime.settings.is_sandbox

    def create(self, request: CreateDeposit, context: RequestContext) -> CreatedTransaction:
        """Credit a client's main account with what it paid the operator; the same reference again changes nothing.

        The client's audit trail shows it. Raises INVALID_REQUEST for a reference or a description that is out of its
        bounds, NOT_FOUND for an unknown client, IDEMPOTENCY_KEY_REUSED for a reference of another deposit.
        """
        context.require("accounts:credit")
        require_reference(request.reference)
        if request.reference.startswith(RETURNED_SETTLEMENT):
            raise ServiceError(Code.INVALID_REQUEST, f"reference: {RETURNED_SETTLEMENT} begins those of settlements.")
        require_description(request.description or "")
        self._references.verify()
        digest = digest_of({"deposit": request.amount_cents, "reference": request.reference})

        def within(row: Transaction) -> AbstractContextManager[None]:
            require_row(Client.get_or_none(Client.id == request.client_id), "Client")
            if self._is_sandbox:
                note_credit_in_sandbox()
            return audited(row, "transaction.deposited", context, request.description)

        identity = RequestIdentity(
            request.client_id,
            TransactionType.DEPOSIT,
            digest,
            request.reference,
            content={"amount_cents": request.amount_cents},
        )
        columns = DraftColumns(
            account=MAIN_ACCOUNT,
            description=request.description,
            request_id=context.request_id,
            operator=request.by and require_name(request.by),
        )
        plan = Plan(request.amount_cents, columns, moves=(DEPOSITS_ACCOUNT, MAIN_ACCOUNT))
        return self._creator.create(identity, plan, Source.OPERATOR, within)
