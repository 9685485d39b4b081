"""Bank accounts: stated by an owner, used once an operator has confirmed them."""

from __future__ import annotations

import hashlib

from peewee import JOIN, IntegrityError

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import for_update, unit_of_work
from ussd_server.models.clients import Client, User
from ussd_server.models.ledger import BankAccount
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.bank.messages import BankAccountView, ConfirmBankAccount, SetSettlementTerms, StateBankAccount
from ussd_server.services.mail.messages import MailKind
from ussd_server.services.operator_names import require_name
from ussd_server.services.runtime import Runtime
from ussd_server.services.same_person import require_owner
from ussd_server.services.signatures import sign_row, signed_change
from ussd_server.status import Code, ServiceError
from ussd_server.wire import view_of_row

_LONGEST_PART = 100
_MOST_CENTS = 10**15


class BankAccountService:
    """Keeps one bank account for each client. A change stops settlements until an operator has confirmed it."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._vault, self._outbox = runtime.clock, runtime.vault, runtime.mail_outbox

    def show(self, context: RequestContext) -> BankAccountView:
        context.require("statements:read")
        return _views(context.client_id)[0]

    def list(self, context: RequestContext) -> tuple[BankAccountView, ...]:
        """The bank accounts of all clients, by the clients' names, for operators."""
        context.require_operator()
        return _views()

    def count_waiting(self, context: RequestContext) -> int:
        """How many bank accounts wait for an operator's confirmation."""
        context.require_operator()
        waits = BankAccount.bank.is_null(False) & BankAccount.confirmed_at.is_null()
        return int(BankAccount.select().where(waits).count())

    def state(self, request: StateBankAccount, context: RequestContext) -> BankAccountView:
        """State where the client's money is paid. For owners; all owners get a mail. INVALID_REQUEST for a bad part."""
        require_owner(context)
        parts = {part: _written(part, getattr(request, part)) for part in ("bank", "number", "name")}
        now = self._clock.now()
        with unit_of_work():
            row = _locked(context.client_id)
            if (row.bank, row.number, row.name) == tuple(parts.values()):
                return _views(context.client_id)[0]
            stated = {**parts, "stated_at": now, "confirmed_by": None, "confirmed_at": None}
            BankAccount.update(**stated).where(BankAccount.client_id == row.client_id).execute()
            sign_row(self._vault, BankAccount, row.client_id)
            shown, by = shown_account(**parts), User.get_by_id(context.caller.user_id).email
            write_audit_event("bank_account.stated", context, now, client_id=row.client_id, reason=shown)
            about = {"account": shown, "by": by, "page": "/console/bank-account"}
            occasion = f"bank-account/{row.client_id}/{now.isoformat()}"
            self._outbox.notify_people(MailKind.BANK_ACCOUNT_CHANGED, row.client_id, about, now, occasion=occasion)
        return _views(context.client_id)[0]

    def confirm(self, request: ConfirmBankAccount, context: RequestContext) -> BankAccountView:
        """Confirm a client's bank account, so that settlements are paid to it.

        NOT_FOUND for a client without one, INVALID_REQUEST when it is not the one that was shown or named.
        """
        context.require_operator()
        by, now = require_name(request.by), self._clock.now()
        with unit_of_work():
            row = _locked(request.client_id)
            if row.bank is None:
                raise ServiceError(Code.NOT_FOUND, "The client has not stated a bank account")
            if request.number is None and request.digest != _digest(row):
                raise ServiceError(Code.INVALID_REQUEST, "The bank account was changed since it was shown")
            if request.number is not None and _plain(request.number) != _plain(str(row.number)):
                raise ServiceError(
                    Code.INVALID_REQUEST, "number: Is not that of the bank account that the owner has stated"
                )
            if row.confirmed_at is None:
                confirmed = {"confirmed_by": by, "confirmed_at": now}
                with signed_change(self._vault, BankAccount, row.client_id):
                    BankAccount.update(**confirmed).where(BankAccount.client_id == row.client_id).execute()
                shown = shown_account(str(row.bank), str(row.number), str(row.name))
                write_audit_event(
                    "bank_account.confirmed", context, now, client_id=row.client_id, reason=shown, decided_by=by
                )
        return _views(request.client_id)[0]

    def set_terms(self, request: SetSettlementTerms, context: RequestContext) -> BankAccountView:
        """Agree what stays here and the least settlement. INVALID_REQUEST for sums out of bounds, NOT_FOUND."""
        context.require_operator()
        terms = {"keep_cents": request.keep_cents, "minimum_cents": request.minimum_cents}
        if not all(cents is None or 0 <= cents < _MOST_CENTS for cents in terms.values()):
            raise ServiceError(Code.INVALID_REQUEST, "keep and minimum: Must be 0 shillings or more")
        now = self._clock.now()
        with unit_of_work():
            row = _locked(request.client_id)
            with signed_change(self._vault, BankAccount, row.client_id):
                BankAccount.update(**terms).where(BankAccount.client_id == row.client_id).execute()
            write_audit_event("settlement_terms.agreed", context, now, client_id=row.client_id)
        return _views(request.client_id)[0]


def _locked(client_id: str) -> BankAccount:
    """The row of a client, locked, made when it is missing. NOT_FOUND for an unknown client."""
    try:
        with unit_of_work():
            BankAccount.insert(client_id=client_id).on_conflict_ignore().execute()
    except IntegrityError:
        raise ServiceError(Code.NOT_FOUND, "Client not found") from None
    row: BankAccount = for_update(BankAccount.select().where(BankAccount.client_id == client_id)).get()
    return row


def _views(client_id: str | None = None) -> tuple[BankAccountView, ...]:
    rows = Client.select(Client, BankAccount).join(
        BankAccount, JOIN.LEFT_OUTER, on=(BankAccount.client_id == Client.id), attr="bank_account"
    )
    if client_id is not None:
        rows = rows.where(Client.id == client_id)
    return tuple(_view(row, getattr(row, "bank_account", None) or BankAccount()) for row in rows.order_by(Client.name))


def _view(client: Client, row: BankAccount) -> BankAccountView:
    return view_of_row(BankAccountView, row, client_id=client.id, client=client.name, digest=_digest(row))


def _digest(row: BankAccount) -> str:
    return hashlib.sha256(repr((row.bank, row.number, row.name)).encode()).hexdigest()


def _written(part: str, text: str) -> str:
    text = " ".join(text.split())
    if not 1 <= len(text) <= _LONGEST_PART or not text.isprintable():
        raise ServiceError(Code.INVALID_REQUEST, f"{part}: Must be 1 to {_LONGEST_PART} characters.")
    if part == "number" and not _plain(text).isalnum():
        raise ServiceError(Code.INVALID_REQUEST, "number: Must be letters, digits, spaces and hyphens.")
    return text


def _plain(number: str) -> str:
    """An account number without the spaces and hyphens between its digits."""
    return number.replace(" ", "").replace("-", "")


def shown_account(bank: str, number: str, name: str) -> str:
    """A bank account in one line of at most 200 characters."""
    return f"{bank}, {number}, {name}"[:200]
