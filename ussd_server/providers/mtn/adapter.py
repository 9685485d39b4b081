"""MTN Mobile Money: requests to pay, transfers and refunds over the MoMo Open API."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from ussd_server.messages.providers import (
    Direction,
    FailureCode,
    Outcome,
    PaymentOrder,
    PollingSchedule,
    ProviderAnswer,
)
from ussd_server.outbound.transport import SendState, Transport
from ussd_server.providers.access_tokens import AccessTokens
from ussd_server.providers.breaker import Breaker
from ussd_server.providers.connection import ProviderConnection
from ussd_server.providers.reasons import Meaning, Reasons, Standing
from ussd_server.providers.replies import (
    NOT_SENT,
    ProviderReply,
    amount_refusal,
    cents,
    failed,
    full_name,
    note,
    parse,
    uuid_in,
    word,
)

_REASONS = Reasons(__package__)
_NOTE_MAX_CHARACTERS = 120
_SANDBOX = "sandbox"

# Payers have five minutes to approve, so most answers come early and none of them after six.
MTN_PACE = PollingSchedule(
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
class MtnAccess:
    """How MTN is reached. `currency` is EUR in MTN's sandbox; a product that is None is not in use.

    `callback_url` is sent in live environments only and must be on the host that is registered with MTN.
    """

    base_url: str
    target_environment: str
    collection: MtnProduct | None = None
    disbursement: MtnProduct | None = None
    currency: str = "UGX"
    callback_url: str | None = None
    least_shillings: int = 500
    most_shillings: int = 5_000_000


class _Product:
    """One product with its token."""

    def __init__(self, name: str, access: MtnAccess, keys: MtnProduct, line: ProviderConnection) -> None:
        self._name = name
        self._line = line
        self._headers = {
            "Ocp-Apim-Subscription-Key": keys.subscription_key,
            "X-Target-Environment": access.target_environment,
        }
        credentials = base64.b64encode(f"{keys.api_user}:{keys.api_key}".encode()).decode()
        self._token_headers = {
            "Authorization": f"Basic {credentials}",
            "Ocp-Apim-Subscription-Key": keys.subscription_key,
        }
        self._tokens = AccessTokens(self._fetch_token, line.breaker)

    def get(self, path: str, until: float) -> ProviderReply:
        return self._authorised("GET", path, {}, b"", until)

    def post(self, path: str, headers: dict[str, str], document: dict[str, Any], until: float) -> ProviderReply:
        body = json.dumps(document, separators=(",", ":")).encode()
        return self._authorised("POST", path, headers | {"Content-Type": "application/json"}, body, until)

    def _authorised(self, method: str, path: str, headers: dict[str, str], body: bytes, until: float) -> ProviderReply:
        def send(token: str) -> ProviderReply:
            own = self._headers | {"Authorization": f"Bearer {token}"} | headers
            return self._line.call(method, f"/{self._name}/v1_0/{path}", own, body, until)

        return self._tokens.authorise(send, until)

    def _fetch_token(self, until: float) -> ProviderReply:
        return self._line.call("POST", f"/{self._name}/token/", self._token_headers, b"", until)


class MtnProvider:
    """Moves money over MTN. Wire format: the MoMo Open API; reasons: `failure_reasons.csv`."""

    name = "mtn"
    moves_whole_shillings_only = True
    refunds_in_full_only = False

    def __init__(
        self,
        access: MtnAccess,
        transport: Transport,
        *,
        pace: PollingSchedule = MTN_PACE,
        breaker: Breaker | None = None,
    ) -> None:
        self.pace = pace
        self._access = access
        self._breaker = breaker or Breaker()
        line = ProviderConnection(access.base_url, transport, self._breaker)
        self._collection = _Product("collection", access, access.collection, line) if access.collection else None
        self._disbursement = (
            _Product("disbursement", access, access.disbursement, line) if access.disbursement else None
        )

    @property
    def available(self) -> bool:
        """False while MTN is left alone after trouble."""
        return not self._breaker.rests

    def ask(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """Ask MTN to move the money; a reference that MTN knows already is answered with what became of it."""
        until = time.monotonic() + timeout_seconds
        refusal = amount_refusal(payment, self._access.least_shillings, self._access.most_shillings)
        if refusal is not None:
            return refusal
        product = self._product(payment.direction)
        if product is None:
            return failed(FailureCode.PROVIDER_CONFIG)
        headers = {"X-Reference-Id": payment.provider_reference}
        if self._access.callback_url and self._access.target_environment != _SANDBOX:
            headers["X-Callback-Url"] = self._access.callback_url
        reply = product.post(_resource(payment.direction), headers, self._document(payment), until)
        if reply.status == 409 or _meaning(reply, payment) is Standing.DUPLICATE:
            return self._known_already(payment, until)
        return _asked(reply, payment)

    def enquire(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """Ask MTN what became of the payment."""
        product = self._product(payment.direction)
        if product is None:
            return ProviderAnswer(Outcome.UNKNOWN)
        path = f"{_resource(payment.direction)}/{payment.provider_reference}"
        reply = product.get(path, time.monotonic() + timeout_seconds)
        if reply.status == 200:
            return self._told(reply, payment)
        # A gateway that does not know the path answers 404 as well, so only MTN's own word counts.
        if reply.status == 404 and _meaning(reply, payment) is Standing.NOT_FOUND:
            return ProviderAnswer(Outcome.NOT_FOUND)
        return ProviderAnswer(Outcome.UNKNOWN, word=word(reply.get("code")))

    def balance_cents(self, direction: Direction, timeout_seconds: float) -> int | None:
        """Our float on the product that serves a direction, in cents, None when it cannot be learnt now."""
        product = self._product(direction)
        reply = product.get("account/balance", time.monotonic() + timeout_seconds) if product else NOT_SENT
        if reply.status != 200 or reply.get("currency") != self._access.currency:
            return None
        return cents(reply.get("availableBalance"))

    def lookup_name(self, phone_number: str, timeout_seconds: float) -> str | None:
        """The given and family name that MTN holds for a number, None when it cannot be learnt."""
        product = self._collection or self._disbursement
        if product is None:
            return None
        path = f"accountholder/msisdn/{quote(_party(phone_number))}/basicuserinfo"
        reply = product.get(path, time.monotonic() + timeout_seconds)
        if reply.status != 200:
            return None
        return full_name(reply.get("given_name"), reply.get("family_name"))

    def reference_in(self, callback: bytes) -> str | None:
        """The reference in a callback: it carries the status body, in which we put it as `externalId`."""
        return uuid_in(parse(callback).get("externalId"))

    def _product(self, direction: Direction) -> _Product | None:
        return self._collection if direction is Direction.COLLECTION else self._disbursement

    def _document(self, payment: PaymentOrder) -> dict[str, Any]:
        text = note(payment.note, _NOTE_MAX_CHARACTERS) or "Payment"
        document: dict[str, Any] = {
            "amount": str(payment.amount_cents // 100),
            "currency": self._access.currency,
            "externalId": payment.provider_reference,
            "payerMessage": text,
            "payeeNote": text,
        }
        if payment.direction is Direction.REFUND:
            return document | {"referenceIdToRefund": payment.original_provider_reference or ""}
        party = {"partyIdType": "MSISDN", "partyId": _party(payment.phone_number)}
        return document | {_party_field(payment.direction): party}

    def _known_already(self, payment: PaymentOrder, until: float) -> ProviderAnswer:
        """MTN has the reference, so an enquiry that learns nothing leaves the payment pending."""
        answer = self.enquire(payment, until - time.monotonic())
        return answer if answer.outcome in (Outcome.SUCCEEDED, Outcome.FAILED) else ProviderAnswer(Outcome.PENDING)

    def _told(self, reply: ProviderReply, payment: PaymentOrder) -> ProviderAnswer:
        """What a status body proves, once it is certain that it speaks of this payment."""
        if not self._speaks_of(reply, payment):
            return ProviderAnswer(Outcome.UNKNOWN, word="another payment")
        status, reason = reply.get("status"), reply.get("reason")
        if isinstance(reason, dict):
            reason = reason.get("code") or reason.get("message")
        amount_cents = cents(reply.get("amount"))
        if status == "SUCCESSFUL" and amount_cents is not None:
            return ProviderAnswer(
                Outcome.SUCCEEDED,
                provider_transaction_id=word(reply.get("financialTransactionId")) or None,
                amount_cents=amount_cents,
                word=word(status),
            )
        if status == "FAILED" and _REASONS.meaning(reason, payment.direction) is not Standing.PENDING:
            return failed(_REASONS.failure(reason, payment.direction), word(reason, status))
        if status in ("PENDING", "FAILED"):
            return ProviderAnswer(Outcome.PENDING, word=word(reason, status))
        return ProviderAnswer(Outcome.UNKNOWN, word=word(status))

    def _speaks_of(self, reply: ProviderReply, payment: PaymentOrder) -> bool:
        external_id, party = reply.get("externalId"), reply.get(_party_field(payment.direction), "partyId")
        return (
            reply.get("currency") == self._access.currency
            and external_id in (None, payment.provider_reference)
            and (party is None or str(party).lstrip("+") == _party(payment.phone_number))
        )


def _asked(reply: ProviderReply, payment: PaymentOrder) -> ProviderAnswer:
    """What the answer to a request proves. MTN answers 500 for permanent mistakes: the code decides, not the status."""
    if reply.reach is SendState.NOT_SENT:
        return ProviderAnswer(Outcome.NOT_SENT)
    company_word = word(reply.get("code"))
    if reply.status == 202:
        return ProviderAnswer(Outcome.PENDING)
    if reply.status == 403:
        return failed(FailureCode.PROVIDER_CONFIG, company_word)
    meaning = _meaning(reply, payment)
    passing = (FailureCode.PROVIDER_ERROR, FailureCode.PROVIDER_UNAVAILABLE)
    if reply.status >= 400 and isinstance(meaning, FailureCode) and meaning not in passing:
        return failed(meaning, company_word)
    if reply.status == 400:
        return failed(FailureCode.PROVIDER_CONFIG, company_word)
    return ProviderAnswer(Outcome.UNKNOWN, word=company_word)


def _meaning(reply: ProviderReply, payment: PaymentOrder) -> Meaning | None:
    return _REASONS.meaning(reply.get("code"), payment.direction)


def _resource(direction: Direction) -> str:
    return {
        Direction.COLLECTION: "requesttopay",
        Direction.DISBURSEMENT: "transfer",
        Direction.REFUND: "refund",
    }[direction]


def _party_field(direction: Direction) -> str:
    return "payer" if direction is Direction.COLLECTION else "payee"


def _party(phone_number: str) -> str:
    """MTN writes numbers with the country code and without the plus."""
    return phone_number.removeprefix("+")
