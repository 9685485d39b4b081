"""Receipts: messages to subscribers about payments that succeeded, in texts of the client."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ussd_server.context import NOT_PERMITTED, RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.menus.document.expressions import ExpressionError, Name
from ussd_server.menus.document.templates import Template, compile_template
from ussd_server.menus.text import sms_parts, transliterate
from ussd_server.models.ledger import Account
from ussd_server.models.sending import Receipt
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import SubscriberLanguage
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.runtime import Runtime
from ussd_server.services.sms.messages import ReceiptPreview, UpdateReceipts
from ussd_server.services.sms.outbox import queue_sms
from ussd_server.status import Code, ServiceError
from ussd_server.values import ungrouped

MOST_PARTS = 3
_DEFAULT_LANGUAGE = "en"
_WRITTEN_SLOT = re.compile(r"\{\{\s*(?=[a-z])")
# The values of a receipt at their widest. As in menus, two characters are kept in reserve for the ends of parts.
_WIDEST = {
    Name("vars", "amount"): "999999.99",
    Name("vars", "balance"): "99999999999.99",
    Name("vars", "reference"): "W" * 64,
    Name("vars", "description"): "W" * 200,
}
_EXAMPLE = {"amount": "5000", "balance": "25000", "reference": "INV-2026-0042", "description": "School fees"}
_RESERVE = "  "


class ReceiptService:
    def __init__(self, runtime: Runtime) -> None:
        self._clock = runtime.clock

    def get(self, context: RequestContext) -> Mapping[str, Mapping[str, str]]:
        """The texts of the calling client, by type of payment and language."""
        context.require("settings:read", NOT_PERMITTED)
        return _texts_of(context.client_id)

    def preview(self, text: str) -> ReceiptPreview:
        """A text as a subscriber would read it, with example values. Raises INVALID_REQUEST as `update`."""
        widest = _parts_at_most("text", text)
        example = transliterate(_compiled(text).phone_text({"vars": _EXAMPLE}))
        return ReceiptPreview(example, len(example), sms_parts(example), widest)

    def update(self, request: UpdateReceipts, context: RequestContext) -> Mapping[str, Mapping[str, str]]:
        """Replace the texts of the types that are named; a type without texts gets no receipts any more.

        Raises INVALID_REQUEST for a text that cannot be read or could take more than three parts.
        """
        context.require("settings:write", NOT_PERMITTED)
        for kind, texts in request.receipts.items():
            for language, text in texts.items():
                _parts_at_most(f"receipts.{kind}.{language}", text)
        now = self._clock.now()
        with unit_of_work():
            for kind, texts in request.receipts.items():
                if texts:
                    Receipt.put({"client_id": context.client_id, "type": kind}, {"texts": dict(texts)})
                else:
                    Receipt.delete().where(Receipt.client_id == context.client_id, Receipt.type == kind).execute()
            write_audit_event("receipts.changed", context, now, client_id=context.client_id)
        return _texts_of(context.client_id)


class ReceiptWriter:
    """Writes the receipts of payments that succeeded; none where no messages are sent."""

    def __init__(self, runtime: Runtime) -> None:
        self._is_on = runtime.sms_sender is not None

    def queue(self, row: Transaction) -> None:
        """Write the receipt of a payment, once. Call in the unit of work of its success."""
        if not self._is_on or row.phone_number is None:
            return
        receipt = Receipt.get_or_none(Receipt.client_id == row.client_id, Receipt.type == row.type)
        if receipt is None:
            return
        whose = {"client_id": row.client_id, "phone_number": row.phone_number}
        language = SubscriberLanguage.get_or_none(**whose)
        own = Account.get_or_none(client_id=row.client_id, name=row.phone_number)
        values = {
            "amount": ungrouped(row.amount_cents),
            "balance": ungrouped(own.balance_cents - own.reserved_cents if own else 0),
            "reference": row.reference,
            "description": row.description or "",
        }
        template = _compiled(_text_for(receipt.texts, language.language if language else None))
        text = transliterate(template.phone_text({"vars": values}))
        queue_sms(row.client_id, row.phone_number, text, f"receipt/{row.id}", row.completed_at, transaction_id=row.id)

    @contextmanager
    def after(self, row: Transaction) -> Iterator[None]:
        """A unit of work that creates a transaction whose money moves at once, and ends with its receipt."""
        with unit_of_work():
            yield
            self.queue(row)

    def are_written(self, client_id: str, kind: str) -> bool:
        return self._is_on and Receipt.select().where(Receipt.client_id == client_id, Receipt.type == kind).exists()


def _texts_of(client_id: str) -> Mapping[str, Mapping[str, str]]:
    rows = Receipt.select().where(Receipt.client_id == client_id).order_by(Receipt.type)
    return {row.type: row.texts for row in rows}


def _text_for(texts: Mapping[str, str], language: str | None) -> str:
    """The text in the language that the subscriber chose last, else in English, else the first."""
    return texts.get(language or "") or texts.get(_DEFAULT_LANGUAGE) or next(iter(texts.values()))


def _compiled(text: str) -> Template:
    """The template of a text. Its slots are those of menus, without the scope."""
    return compile_template(_WRITTEN_SLOT.sub("{{vars.", text), _WIDEST)


def _parts_at_most(field: str, text: str) -> int:
    """How many parts a text takes with the longest values. INVALID_REQUEST for one that `update` refuses."""
    refusal = f"Invalid request body: {field}: "
    try:
        template = _compiled(text)
    except ExpressionError:
        template = None
    if template is None or not template.names <= _WIDEST.keys():
        slots = "{{amount|ugx}}, {{balance|ugx}}, {{reference}} and {{description}}"
        raise ServiceError(Code.INVALID_REQUEST, f"{refusal}Shows values by {slots} alone.")
    parts = sms_parts(transliterate(template.widest) + _RESERVE)
    if parts > MOST_PARTS:
        raise ServiceError(
            Code.INVALID_REQUEST, f"{refusal}Could take {parts} parts; a receipt has at most {MOST_PARTS}."
        )
    return parts
