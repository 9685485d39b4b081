"""Payment codes: what payers type as the reason of a payment, and the account that each credits."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import asdict
from datetime import datetime
from typing import Any

from peewee import IntegrityError, fn

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import advisory_lock, for_update, unit_of_work
from ussd_server.models.clients import Client
from ussd_server.models.incoming import PaymentCode, PaymentCodePrefix
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.incoming.messages import PaymentCodeView, PrefixView, PutPaymentCode, SetPrefix
from ussd_server.services.pages import page_of, require_row
from ussd_server.services.runtime import Runtime
from ussd_server.services.signatures import sign_row, signed_change
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id
from ussd_server.wire import DeletionResult, ListPage, Page, view_of_row

MOST_CODES = 100_000
"""The most payment codes of a client."""

_LOCK = 7_256_256_171
_PREFIX = re.compile(r"[A-Z]{2,6}")
_REST = re.compile(r"[A-Z0-9]{1,14}")


def canonical(typed: str) -> str:
    """A typed code as it is stored: in upper case, without spaces and hyphens of any kind."""
    letters = "".join(each for each in typed if not each.isspace() and unicodedata.category(each) != "Pd")
    # Some letters of other scripts have the same upper case as a Latin one.
    return letters.upper() if letters.isascii() else letters


def prefix_of(client_id: str) -> str | None:
    """The prefix of a client's payment codes, None until the operator has given one."""
    row = PaymentCodePrefix.get_or_none(PaymentCodePrefix.client_id == client_id)
    return None if row is None else str(row.prefix)


class PaymentCodeService:
    """Keeps the payment codes of clients, and the prefixes that operators give."""

    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._tokens, self._vault = runtime.clock, runtime.tokens, runtime.vault

    def prefix(self, context: RequestContext) -> str | None:
        """The prefix of the client's payment codes, None until the operator has given one."""
        context.require("collection:read")
        return prefix_of(context.client_id)

    def put(self, request: PutPaymentCode, context: RequestContext) -> PaymentCodeView:
        """Create a payment code, or replace what it says; the same request again changes nothing.

        INVALID_REQUEST for a code that does not begin with the client's prefix, for an amount beside bounds, for bounds
        in the wrong order, for an expiry in the past, and beyond 100,000 codes.
        """
        context.require("collection:write")
        _require_bounds(request)
        code = _own_code(request.code, context)
        now = self._clock.now()
        terms = {name: value for name, value in asdict(request).items() if name != "code"}
        try:
            with unit_of_work():
                row = for_update(_codes_of(context.client_id).where(PaymentCode.code == code)).first()
                if row is None or row.expires_at != request.expires_at:
                    _require_future(request.expires_at, now)
                if row is not None:
                    return _view(self._replace(row, terms, context))
                if _codes_of(context.client_id).offset(MOST_CODES - 1).exists():
                    raise ServiceError(Code.INVALID_REQUEST, f"A client has at most {MOST_CODES:,} payment codes")
                keys = {"id": new_id(now), "client_id": context.client_id, "code": code}
                row = PaymentCode.create(**keys, **terms, account_since=now, created_at=now, updated_at=now)
                sign_row(self._vault, PaymentCode, row.id)
                _write_audit_event("payment_code.created", row, context)
        except IntegrityError:
            # Another request has created it since the look-up.
            return self.put(request, context)
        return _view(row)

    def get(self, code: str, context: RequestContext) -> PaymentCodeView:
        """One payment code. NOT_FOUND for one that is not the client's."""
        context.require("collection:read")
        return _view(_require_code(_codes_of(context.client_id), code))

    def list(self, request: ListPage, context: RequestContext) -> Page[PaymentCodeView]:
        """A page of the client's payment codes, newest first."""
        context.require("collection:read")
        codes = _codes_of(context.client_id)
        return page_of(codes, PaymentCode, request, self._tokens, lambda codes: map(_view, codes))

    def delete(self, code: str, context: RequestContext) -> DeletionResult:
        """Remove a payment code: what comes with it from now on is held. NOT_FOUND for one that is not the client's."""
        context.require("collection:write")
        now = self._clock.now()
        with unit_of_work():
            row = _require_code(for_update(_codes_of(context.client_id)), code)
            row.delete_instance()
            _write_audit_event("payment_code.deleted", row, context)
        return DeletionResult(row.code, now)

    def set_prefix(self, request: SetPrefix, context: RequestContext) -> PrefixView:
        """Give a client its prefix.

        Codes with an earlier prefix stay. NOT_FOUND for an unknown client. INVALID_REQUEST for what is no prefix, and
        for one that is or begins another's prefix or code, or that another's prefix begins.
        """
        context.require_operator()
        prefix = request.prefix.upper()
        if not _PREFIX.fullmatch(prefix):
            raise ServiceError(Code.INVALID_REQUEST, "prefix: Must be 2 to 6 letters from A to Z")
        now = self._clock.now()
        with unit_of_work():
            advisory_lock(_LOCK)
            client = require_row(Client.get_or_none(Client.id == request.client_id), "Client")
            if prefix_of(client.id) != prefix:
                _refuse_overlap(prefix, client.id)
                PaymentCodePrefix.delete().where(PaymentCodePrefix.client_id == client.id).execute()
                PaymentCodePrefix.create(client_id=client.id, prefix=prefix)
                sign_row(self._vault, PaymentCodePrefix, client.id)
                write_audit_event("payment_codes.prefix_given", context, now, client_id=client.id, reason=prefix)
        return PrefixView(client.id, client.name, prefix)

    def _replace(self, row: PaymentCode, terms: dict[str, Any], context: RequestContext) -> PaymentCode:
        if any(getattr(row, name) != value for name, value in terms.items()):
            now = self._clock.now()
            row.account_since = row.account_since if row.account == terms["account"] else now
            for name, value in terms.items():
                setattr(row, name, value)
            row.updated_at = now
            with signed_change(self._vault, PaymentCode, row.id):
                row.save()
            _write_audit_event("payment_code.changed", row, context)
        return row


def _codes_of(client_id: str) -> Any:
    return PaymentCode.select().where(PaymentCode.client_id == client_id)


def _require_code(rows: Any, code: str) -> PaymentCode:
    row: PaymentCode | None = rows.where(PaymentCode.code == canonical(code)).first()
    return require_row(row, "Payment code")


def _own_code(typed: str, context: RequestContext) -> str:
    """The code as it is stored. INVALID_REQUEST unless it has the client's prefix, or the client has it already."""
    code, prefix = canonical(typed), prefix_of(context.client_id)
    if prefix is None:
        raise ServiceError(Code.INVALID_REQUEST, "code: The operator has given this client no prefix for its codes yet")
    has_prefix = code.startswith(prefix) and _REST.fullmatch(code[len(prefix) :])
    if not has_prefix and not _codes_of(context.client_id).where(PaymentCode.code == code).exists():
        raise ServiceError(Code.INVALID_REQUEST, f"code: Must be {prefix} followed by 1 to 14 letters and digits")
    return code


def _require_bounds(request: PutPaymentCode) -> None:
    least, most = request.min_amount_cents, request.max_amount_cents
    if request.amount_cents is not None and (least is not None or most is not None):
        raise ServiceError(Code.INVALID_REQUEST, "amount: A fixed amount has no min_amount and max_amount beside it")
    if least is not None and most is not None and least > most:
        raise ServiceError(Code.INVALID_REQUEST, "max_amount: Must be at least min_amount")


def _require_future(expires_at: datetime | None, now: datetime) -> None:
    if expires_at is not None and expires_at <= now:
        raise ServiceError(Code.INVALID_REQUEST, "expires_at: Must be in the future")


def _refuse_overlap(prefix: str, client_id: str) -> None:
    begins_with_it = fn.SUBSTR(PaymentCodePrefix.prefix, 1, len(prefix)) == prefix
    beginnings = PaymentCodePrefix.prefix.in_([prefix[:length] for length in range(2, len(prefix))])
    others = PaymentCodePrefix.select().where(PaymentCodePrefix.client_id != client_id, begins_with_it | beginnings)
    if (other := others.first()) is not None:
        name = Client.get_by_id(other.client_id).name
        raise ServiceError(Code.INVALID_REQUEST, f"prefix: {name} has {other.prefix}; no prefix is or begins another's")
    # Codes with an earlier prefix of another client.
    codes = PaymentCode.select().where(
        PaymentCode.client_id != client_id, fn.SUBSTR(PaymentCode.code, 1, len(prefix)) == prefix
    )
    if codes.exists():
        raise ServiceError(Code.INVALID_REQUEST, "prefix: A payment code of another client begins with it")


def _view(row: PaymentCode) -> PaymentCodeView:
    return view_of_row(PaymentCodeView, row)


def _write_audit_event(action: str, row: PaymentCode, context: RequestContext) -> None:
    write_audit_event(action, context, row.updated_at, client_id=row.client_id, object_id=row.id, reason=row.code)
