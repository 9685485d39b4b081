"""MTN Mobile Money: requests to pay, transfers and refunds over the MoMo Open API; the settings `USSD_MTN_...`."""

from __future__ import annotations

import base64
import re
import time
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from ussd_server.outbound.transport import SendState, Transport
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.http import replies
from ussd_server.providers.http.connection import AuthorisedConnection, Breaker, ProviderConnection, encode
from ussd_server.providers.http.provider import HttpProvider
from ussd_server.providers.messages import (
    Direction,
    Outcome,
    PaymentOrder,
    PollingSchedule,
    ProviderAnswer,
    Registration,
)
from ussd_server.providers.package import ProviderAccess
from ussd_server.providers.settings import SettingsReader

SANDBOX = "sandbox"
_PRODUCT_KEYS = ("SUBSCRIPTION_KEY", "API_USER", "API_KEY")

# Payers have five minutes to approve, so most replies are final early and all of them after six minutes.
MTN_SCHEDULE = PollingSchedule(
    delays=(5.0, 5.0, 10.0, 10.0, 20.0, 30.0, 60.0, 60.0, 120.0, 300.0, 600.0),
    not_found_means_lost_after=60.0,
    late_check_after=600.0,
    give_up_after=7200.0,
    per_second=10.0,
)


@dataclass(frozen=True, slots=True)
class MtnProduct:
    """Access to one product: MTN gives a subscription key, a user and a key for each."""

    subscription_key: str = field(repr=False)
    api_user: str
    api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class MtnAccess(ProviderAccess):
    """How MTN is reached. `currency` is EUR in MTN's sandbox; a product that is None is not in use.

    `callback_url` is sent in live environments only and must be on the host that is registered with MTN.
    """

    target_environment: str
    collection: MtnProduct | None = None
    disbursement: MtnProduct | None = None
    schedule: PollingSchedule = field(default=MTN_SCHEDULE, kw_only=True)

    def product(self, direction: Direction) -> MtnProduct | None:
        return self.collection if direction is Direction.COLLECTION else self.disbursement

    def identity(self, direction: Direction) -> tuple[str, ...]:
        product = self.product(direction)
        return (self.target_environment, product.api_user) if product else (self.target_environment,)


def read_settings(reader: SettingsReader) -> MtnAccess:
    environment = reader.text("ENVIRONMENT", SANDBOX)
    access = MtnAccess(
        base_url=reader.base_url(),
        target_environment=environment,
        collection=_read_product(reader, "COLLECTION"),
        disbursement=_read_product(reader, "DISBURSEMENT"),
        currency=reader.text("CURRENCY", "EUR" if environment == SANDBOX else "UGX"),
        schedule=reader.schedule(MTN_SCHEDULE),
    )
    if access.collection is None and access.disbursement is None:
        reader.refuse("COLLECTION_SUBSCRIPTION_KEY", "MTN is switched on, but none of its products is")
    if reader.in_production and environment == SANDBOX:
        reader.refuse("ENVIRONMENT", "names MTN's sandbox, where no money moves; production needs mtnuganda")
    return access


def _read_product(reader: SettingsReader, product: str) -> MtnProduct | None:
    names = [f"{product}_{key}" for key in _PRODUCT_KEYS]
    return MtnProduct(*map(reader.required, names)) if any(map(reader.text, names)) else None


_REASONS = replies.Reasons(__package__)
_NOTE_MAX_CHARACTERS = 120
_WRITTEN_PARTY = re.compile(r"(?:FRI:)?(?:\+?256|0)([0-9]{9})(?:/MSISDN)?", re.IGNORECASE | re.ASCII)
_UNREGISTERED = (replies.Standing.NOT_FOUND, FailureCode.PAYER_NOT_FOUND, FailureCode.PAYEE_NOT_FOUND)


def _product(name: str, access: MtnAccess, keys: MtnProduct, connection: ProviderConnection) -> AuthorisedConnection:
    """One product, which has a token of its own."""
    headers = {
        "Ocp-Apim-Subscription-Key": keys.subscription_key,
        "X-Target-Environment": access.target_environment,
    }
    credentials = base64.b64encode(f"{keys.api_user}:{keys.api_key}".encode()).decode()

    def fetch_token(until: float) -> replies.ProviderReply:
        return connection.call(
            "POST", f"/{name}/token/", headers | {"Authorization": f"Basic {credentials}"}, b"", until
        )

    shared = (
        access.shared_tokens.of(access.base_url, name, keys.api_user, keys.api_key) if access.shared_tokens else None
    )
    return AuthorisedConnection(connection, fetch_token, headers, f"/{name}/v1_0/", shared)


class MtnProvider(HttpProvider[MtnAccess]):
    """Moves money over MTN. Wire format: the MoMo Open API; reasons: `failure_reasons.csv`."""

    name = "mtn"

    def __init__(self, access: MtnAccess, transport: Transport, *, breaker: Breaker | None = None) -> None:
        super().__init__(access, transport, breaker=breaker)
        products = {"collection": access.collection, "disbursement": access.disbursement}
        self._products = {
            name: _product(name, access, keys, self._connection) for name, keys in products.items() if keys
        }

    def balance_cents(self, direction: Direction, timeout_seconds: float) -> int | None:
        """Our float on the product that serves a direction, in cents, None when it cannot be read now."""
        product = self._product(direction)
        reply = product.get("account/balance", time.monotonic() + timeout_seconds) if product else replies.NOT_SENT
        if reply.status != 200 or reply.get("currency") != self._access.currency:
            return None
        return replies.balance_cents(reply.get("availableBalance"))

    def look_up(self, phone_number: str, timeout_seconds: float) -> Registration:
        product = next(iter(self._products.values()), None)
        path = f"accountholder/msisdn/{quote(_party(phone_number))}/basicuserinfo"
        reply = product.get(path, time.monotonic() + timeout_seconds) if product else replies.NOT_SENT
        if reply.status == 200:
            name = replies.full_name(reply.get("given_name"), reply.get("family_name"))
            return Registration(name, True if name else None)
        # A proxy that does not know the path answers 404 as well, so only MTN's own code counts.
        meaning = _REASONS.meaning(reply.get("code"), Direction.DISBURSEMENT)
        return Registration(is_registered=False if reply.status == 404 and meaning in _UNREGISTERED else None)

    def reference_in(self, callback: bytes) -> str | None:
        """The reference in a callback: it carries the status body, in which we put it as `externalId`."""
        return replies.uuid_in(replies.parse(callback).get("externalId"))

    def _send(self, payment: PaymentOrder, until: float) -> ProviderAnswer:
        """Send the payment; for a reference that MTN has already, query the status."""
        product = self._product(payment.direction)
        if product is None:
            return replies.failed(FailureCode.PROVIDER_CONFIG, left_machine=False)
        headers = {"X-Reference-Id": payment.provider_reference}
        if self._access.callback_url and self._access.target_environment != SANDBOX:
            headers["X-Callback-Url"] = self._access.callback_url
        reply = product.post(_resource(payment), headers, encode(self._document(payment)), until)
        if reply.status != 409 and _meaning(reply, payment) is not replies.Standing.DUPLICATE:
            return _answer_to_request(reply, payment)
        # MTN has the reference, so a query without a result leaves the payment pending.
        answer = self._query_status(payment, until)
        is_final = answer.outcome in (Outcome.SUCCEEDED, Outcome.FAILED)
        return answer if is_final or answer.is_about_another else ProviderAnswer(Outcome.PENDING)

    def _query_status(self, payment: PaymentOrder, until: float) -> ProviderAnswer:
        product = self._product(payment.direction)
        if product is None:
            return ProviderAnswer(Outcome.UNKNOWN, left_machine=False)
        reply = product.get(f"{_resource(payment)}/{payment.provider_reference}", until)
        if reply.status == 200:
            return self._answer_to_query(reply, payment)
        # A proxy that does not know the path answers 404 as well, so only MTN's own code counts.
        meaning = _REASONS.meaning(reply.get("code"), payment.direction)
        if reply.status == 404 and meaning is replies.Standing.NOT_FOUND:
            return ProviderAnswer(Outcome.NOT_FOUND)
        return replies.unclear(reply, reply.get("code"), reply.get("message"))

    def _is_set_up_for(self, direction: Direction) -> bool:
        return self._product(direction) is not None

    def _product(self, direction: Direction) -> AuthorisedConnection | None:
        return self._products.get("collection" if direction is Direction.COLLECTION else "disbursement")

    def _document(self, payment: PaymentOrder) -> dict[str, Any]:
        text = replies.note(payment.note, _NOTE_MAX_CHARACTERS) or "Payment"
        document: dict[str, Any] = {
            "amount": str(payment.amount_cents // 100),
            "currency": self._access.currency,
            "externalId": payment.provider_reference,
            "payerMessage": text,
            "payeeNote": text,
        }
        if _names_original(payment):
            return document | {"referenceIdToRefund": payment.original_provider_reference}
        party = {"partyIdType": "MSISDN", "partyId": _party(payment.phone_number)}
        return document | {_party_field(payment.direction): party}

    def _answer_to_query(self, reply: replies.ProviderReply, payment: PaymentOrder) -> ProviderAnswer:
        """The result that a status body proves; one about another payment proves nothing."""
        if not self._has_reference(reply, payment):
            return replies.unclear(reply, "another payment", reply.get("status"))
        party = reply.get(_party_field(payment.direction), "partyId")
        if party is not None and _party_in(party) != _party(payment.phone_number):
            return replies.unclear(reply, "another number", is_about_another=True)
        status, reason = reply.get("status"), reply.get("reason")
        if isinstance(reason, dict):
            reason = reason.get("code") or reason.get("message")
        amount_cents = replies.cents(reply.get("amount"))
        if status == "SUCCESSFUL" and amount_cents is not None and reply.get("currency") is not None:
            return ProviderAnswer(
                Outcome.SUCCEEDED,
                provider_transaction_id=replies.code_or_message(reply.get("financialTransactionId")) or None,
                amount_cents=amount_cents,
                reason=replies.code_or_message(status),
            )
        if status == "FAILED" and _REASONS.meaning(reason, payment.direction) not in replies.UNDECIDED:
            why = replies.failed(_REASONS.failure(reason, payment.direction), replies.code_or_message(reason, status))
            return replace(why, amount_cents=amount_cents)
        if status in ("PENDING", "FAILED"):
            return ProviderAnswer(Outcome.PENDING, reason=replies.code_or_message(reason, status))
        lacks = "" if amount_cents is not None and reply.get("currency") is not None else "no amount"
        return replies.unclear(reply, status, reason, lacks)

    def _has_reference(self, reply: replies.ProviderReply, payment: PaymentOrder) -> bool:
        """Whether a status body is about this payment. What it leaves out does not speak against it."""
        is_ours = reply.get("externalId") in (None, payment.provider_reference)
        return is_ours and reply.get("currency") in (None, self._access.currency)


def _answer_to_request(reply: replies.ProviderReply, payment: PaymentOrder) -> ProviderAnswer:
    """What the reply to a request proves. MTN answers 500 for permanent errors: the code decides, not the status."""
    if reply.reach is SendState.NOT_SENT:
        return ProviderAnswer(Outcome.NOT_SENT, reason=reply.refusal)
    if reply.status == 202:
        return ProviderAnswer(Outcome.PENDING)
    meaning = _meaning(reply, payment)
    if reply.status == 403 and meaning is FailureCode.PROVIDER_UNAVAILABLE:
        # MTN's gateway refused the call before MTN saw it: our quota is used up until later.
        return ProviderAnswer(Outcome.NOT_SENT, reason=reply.refusal)
    if reply.status == 403:
        return replies.failed(FailureCode.PROVIDER_CONFIG, reply.refusal)
    temporary = (FailureCode.PROVIDER_ERROR, FailureCode.PROVIDER_UNAVAILABLE)
    if reply.status >= 400 and isinstance(meaning, FailureCode) and meaning not in temporary:
        return replies.failed(meaning, reply.refusal)
    if reply.status == 400:
        return replies.failed(FailureCode.PROVIDER_CONFIG, reply.refusal)
    return replies.unclear(reply, reply.get("code"), reply.get("message"))


def _meaning(reply: replies.ProviderReply, payment: PaymentOrder) -> replies.Meaning | None:
    """What the code means; MTN's gateway sends no code, but a sentence: "Out of call volume quota. Quota will be…"."""
    code, message = reply.get("code"), reply.get("message")
    if code is None and isinstance(message, str):
        code = message.partition(".")[0]
    return _REASONS.meaning(code, payment.direction)


def _names_original(payment: PaymentOrder) -> bool:
    """Whether MTN knows the collection that is refunded by a reference of ours; if not, a refund is a transfer."""
    return payment.direction is Direction.REFUND and payment.original_provider_reference is not None


def _resource(payment: PaymentOrder) -> str:
    if payment.direction is Direction.COLLECTION:
        return "requesttopay"
    return "refund" if _names_original(payment) else "transfer"


def _party_field(direction: Direction) -> str:
    return "payer" if direction is Direction.COLLECTION else "payee"


def _party(phone_number: str) -> str:
    """MTN writes numbers with the country code and without the plus."""
    return phone_number.removeprefix("+")


def _party_in(party: object) -> str:
    """The number in a reply: `256772…`, `+256772…`, `0772…` or `FRI:256772…/MSISDN`. Any other text stays as it is."""
    written = _WRITTEN_PARTY.fullmatch(str(party))
    return f"256{written[1]}" if written else str(party).lstrip("+")
