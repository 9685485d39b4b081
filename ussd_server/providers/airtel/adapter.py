"""Airtel Money: pushes, disbursements and refunds over the Airtel Africa Open API."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from ussd_server.outbound.transport import SendState, Transport
from ussd_server.providers.airtel.access import AirtelAccess
from ussd_server.providers.airtel.encryption import AirtelKey, read_key
from ussd_server.providers.failures import FailureCode
from ussd_server.providers.http import replies
from ussd_server.providers.http.connection import JSON, AuthorisedConnection, Breaker, encode
from ussd_server.providers.http.provider import HttpProvider
from ussd_server.providers.messages import Direction, Outcome, PaymentOrder, ProviderAnswer, Registration
from ussd_server.values import with_hyphens

_REASONS = replies.Reasons(__package__)
_NOTE_MIN_CHARACTERS = 4
_NOTE_MAX_CHARACTERS = 60
_KEY_LIFE_SECONDS = 600.0
_STATED_RECEIPT = re.compile(
    r"\b(?:TID|Trans(?:action)?\.? ?ID)[: ]+([A-Za-z0-9][A-Za-z0-9.-]{4,39})(?<!\.)", re.IGNORECASE
)
_STATED_AMOUNT = re.compile(r"\b(?:Paid|You have (?:deposited|sent)) UGX ([0-9][0-9,]{0,11}(?:\.[0-9]{1,2})?)")
# What a reply to a query proves that has a code but no status letters.
_OUTCOMES: dict[replies.Meaning | None, Outcome] = {
    replies.Standing.NOT_FOUND: Outcome.NOT_FOUND,
    replies.Standing.PENDING: Outcome.PENDING,
}
_LETTERS = {
    "TS": Outcome.SUCCEEDED,
    "TF": Outcome.FAILED,
    "TE": Outcome.FAILED,  # expired
    "TA": Outcome.UNKNOWN,  # ambiguous
    "TIP": Outcome.PENDING,  # in progress
}


class AirtelProvider(HttpProvider[AirtelAccess]):
    """Moves money over Airtel. Wire format: the Airtel Africa Open API; result codes: `failure_reasons.csv`."""

    name = "airtel"
    refunds_in_full_only = True
    plain_references = True

    def __init__(self, access: AirtelAccess, transport: Transport, *, breaker: Breaker | None = None) -> None:
        super().__init__(access, transport, breaker=breaker)
        headers = {"X-Country": access.country, "X-Currency": access.currency, "Accept": "*/*"}
        credentials = (access.base_url, access.client_id, access.client_secret)
        shared = access.shared_tokens.of(*credentials) if access.shared_tokens else None
        self._authorised = AuthorisedConnection(self._connection, self._fetch_token, headers, shared=shared)
        self._key: tuple[float, AirtelKey] | None = None

    def balance_cents(self, direction: Direction, timeout_seconds: float) -> int | None:
        """Our money with Airtel in cents, None when it cannot be read now: v1 has no balance for disbursements."""
        path = self._access.balance_path_of(direction)
        if path is None:
            return None
        reply = self._authorised.get(path, time.monotonic() + timeout_seconds)
        if reply.status != 200 or reply.get("data", "currency") not in (None, self._access.currency):
            return None
        return replies.balance_cents(reply.get("data", "balance"))

    def look_up(self, phone_number: str, timeout_seconds: float) -> Registration:
        """The first and last name that Airtel holds for a number."""
        path = f"/standard/v1/users/{quote(_msisdn(phone_number))}"
        reply = self._authorised.get(path, time.monotonic() + timeout_seconds)
        name = replies.full_name(reply.get("data", "first_name"), reply.get("data", "last_name"))
        if reply.status == 200 and name:
            return Registration(name, is_registered=True)
        is_unknown = _REASONS.meaning(_code(reply), Direction.DISBURSEMENT) is FailureCode.PAYEE_NOT_FOUND
        return Registration(is_registered=False if is_unknown and reply.status < 500 else None)

    def reference_in(self, callback: bytes) -> str | None:
        """The reference in a callback: the id that we gave the transaction."""
        return replies.uuid_in(
            replies.ProviderReply(SendState.ANSWERED, 200, replies.parse(callback)).get("transaction", "id")
        )

    def _is_set_up_for(self, direction: Direction) -> bool:
        return direction is not Direction.DISBURSEMENT or bool(self._access.pin or self._access.encrypted_pin)

    def _send(self, payment: PaymentOrder, until: float) -> ProviderAnswer:
        """Send the payment; an id that Airtel has already is pending until a query says more."""
        if payment.direction is Direction.REFUND and not payment.original_provider_transaction_id:
            return replies.failed(FailureCode.PROVIDER_ERROR, "no airtel money id to refund", left_machine=False)
        if not self._is_set_up_for(payment.direction):
            return replies.failed(FailureCode.PROVIDER_CONFIG, "no PIN", left_machine=False)
        key = None
        if self._needs_key(payment.direction):
            key, refusal = self._current_key(until)
            if key is None:
                reason = f"{refusal} (no encryption key)" if replies.is_refusal(refusal) else refusal
                return ProviderAnswer(Outcome.NOT_SENT, reason=reason or "no encryption key", left_machine=False)
        answer = _answer_to_request(self._post(payment, key, until), payment)
        return replace(answer, has_no_query=payment.direction is Direction.REFUND)

    def _query_status(self, payment: PaymentOrder, until: float) -> ProviderAnswer:
        """Query the status. Airtel has no id for a refund, so that stays unknown."""
        if payment.direction is Direction.REFUND:
            return ProviderAnswer(Outcome.UNKNOWN, left_machine=False, has_no_query=True)
        path = self._access.enquiry_path(payment.direction)
        reply = self._authorised.get(path.replace("{id}", quote(payment.provider_reference)), until)
        answer = _answer_of_letters(reply, payment)
        if answer is not None:
            return answer
        outcome = _OUTCOMES.get(_meaning(reply, payment))
        return ProviderAnswer(outcome, reason=_shown_code(reply)) if outcome else _unclear(reply)

    def _needs_key(self, direction: Direction) -> bool:
        """Whether a request of this direction is signed or encrypted here."""
        encrypts = direction is Direction.DISBURSEMENT and not self._access.encrypted_pin
        return encrypts or self._access.signs(direction)

    def _post(self, payment: PaymentOrder, key: AirtelKey | None, until: float) -> replies.ProviderReply:
        """Send the request that a payment needs, signed where the settings say so."""
        body = encode(self._document(payment, key))
        headers = key.signature_headers(body) if key is not None and self._access.signs(payment.direction) else {}
        return self._authorised.post(self._path(payment.direction), headers, body, until)

    def _path(self, direction: Direction) -> str:
        version = self._access.version_of(direction)
        return {
            Direction.COLLECTION: f"/merchant/{version}/payments/",
            Direction.DISBURSEMENT: f"/standard/{version}/disbursements/",
            Direction.REFUND: f"/standard/{version}/payments/refund",
        }[direction]

    def _document(self, payment: PaymentOrder, key: AirtelKey | None) -> dict[str, Any]:
        if payment.direction is Direction.REFUND:
            return {"transaction": {"airtel_money_id": payment.original_provider_transaction_id}}
        reference = _reference(payment)
        msisdn = _msisdn(payment.phone_number)
        transaction: dict[str, Any] = {"amount": payment.amount_cents // 100, "id": payment.provider_reference}
        market = {"country": self._access.country, "currency": self._access.currency}
        if payment.direction is Direction.COLLECTION:
            return {
                "reference": reference,
                "subscriber": market | {"msisdn": msisdn},
                "transaction": transaction | market,
            }
        payee = {"msisdn": msisdn}
        version = self._access.version_of(payment.direction)
        if version == "v2":
            payee["currency"] = self._access.currency
        if version == "v3":
            payee["wallet_type"] = "NORMAL"
        if version != "v1":
            transaction["type"] = "B2C"
        pin = self._access.encrypted_pin
        if pin is None and key is not None:
            pin = key.encrypt((self._access.pin or "").encode(), self._access.pin_padding)
        return {"payee": payee, "reference": reference, "pin": pin, "transaction": transaction}

    def _fetch_token(self, until: float) -> replies.ProviderReply:
        document = {
            "client_id": self._access.client_id,
            "client_secret": self._access.client_secret,
            "grant_type": "client_credentials",
        }
        return self._connection.call("POST", "/auth/oauth2/token", JSON | {"Accept": "*/*"}, encode(document), until)

    def _current_key(self, until: float) -> tuple[AirtelKey | None, str]:
        """Airtel's key, and what was said where it was refused; without a key nothing is sent."""
        if self._access.public_key is not None:
            return self._access.public_key, ""
        cached_key = self._key
        if cached_key is not None and time.monotonic() < cached_key[0]:
            return cached_key[1], ""
        reply = self._authorised.get("/v1/rsa/encryption-keys", until)
        key = read_key(reply.get("data", "key"))
        if key is not None:
            self._key = (time.monotonic() + _KEY_LIFE_SECONDS, key)
        return key, reply.refusal


def _answer_to_request(reply: replies.ProviderReply, payment: PaymentOrder) -> ProviderAnswer:
    """What a reply to a request proves: a push that was sent is pending, even if its envelope says success."""
    if reply.reach is SendState.NOT_SENT:
        return ProviderAnswer(Outcome.NOT_SENT, reason=reply.refusal)
    answer = _answer_of_letters(reply, payment)
    if answer is not None:
        return answer
    meaning = _meaning(reply, payment)
    if reply.status == 200 and reply.get("data", "transaction", "status") in ("SUCCESS", "Success."):
        if payment.direction is not Direction.REFUND or meaning is replies.Standing.PENDING:
            return ProviderAnswer(Outcome.PENDING, reason=_shown_code(reply))
        if meaning in (None, replies.Standing.SUCCEEDED):
            return _succeeded(reply)
    if meaning is replies.Standing.DUPLICATE and payment.direction is Direction.REFUND:
        # Airtel refunds a payment whole, once and at once, without a query: this payment was refunded before.
        return replace(_succeeded(reply), provider_transaction_id=payment.original_provider_transaction_id)
    # Airtel may have accepted a request that ends in a 500: such a reply proves nothing.
    if isinstance(meaning, FailureCode) and reply.status < 500:
        return replies.failed(meaning, reply.refusal or _shown_code(reply))
    if meaning in (replies.Standing.PENDING, replies.Standing.DUPLICATE):
        return ProviderAnswer(Outcome.PENDING, reason=_shown_code(reply))
    return _unclear(reply)


def _answer_of_letters(reply: replies.ProviderReply, payment: PaymentOrder) -> ProviderAnswer | None:
    """What the status letters prove, None without letters: the envelope is about the HTTP call only."""
    transaction_id, letters = reply.get("data", "transaction", "id"), reply.get("data", "transaction", "status")
    if reply.status != 200 or not isinstance(letters, str) or letters not in _LETTERS:
        return None
    # Airtel has been seen to answer a push with `"id": false`; an id that is there must be ours.
    if isinstance(transaction_id, str) and with_hyphens(transaction_id) != with_hyphens(payment.provider_reference):
        return replies.unclear(reply, "another payment", letters)
    outcome = _LETTERS[letters]
    if outcome is Outcome.SUCCEEDED:
        return _succeeded(reply)
    meaning = _meaning(reply, payment)
    if outcome is Outcome.FAILED and meaning is replies.Standing.NOT_FOUND:
        return None
    if outcome is Outcome.FAILED and meaning in replies.UNDECIDED:
        return ProviderAnswer(Outcome.PENDING, reason=_shown_code(reply))
    if outcome is Outcome.FAILED:
        failure = FailureCode.PAYER_TIMEOUT if letters == "TE" else _REASONS.failure(_code(reply), payment.direction)
        return replies.failed(failure, _shown_code(reply))
    return _unclear(reply) if outcome is Outcome.UNKNOWN else ProviderAnswer(outcome, reason=letters)


def _succeeded(reply: replies.ProviderReply) -> ProviderAnswer:
    transaction_id = replies.code_or_message(reply.get("data", "transaction", "airtel_money_id"))
    message = reply.get("data", "transaction", "message")
    stated = _STATED_RECEIPT.search(message) if isinstance(message, str) else None
    told = stated[1] if stated and stated[1] != transaction_id else None
    receipt = replies.code_or_message(reply.get("data", "transaction", "reference_id"), told)
    return ProviderAnswer(
        Outcome.SUCCEEDED,
        provider_transaction_id=transaction_id or receipt or None,
        receipt=receipt or None,
        amount_cents=_amount_cents(reply),
        reason=replies.code_or_message(f"{reply.get('data', 'transaction', 'status')} {receipt}"),
    )


def _amount_cents(reply: replies.ProviderReply) -> int | None:
    """The amount that the message states, None for a message of another form: Airtel has no field for it."""
    message = reply.get("data", "transaction", "message") or reply.get("status", "message")
    stated = _STATED_AMOUNT.search(message) if isinstance(message, str) else None
    return replies.cents(stated[1].replace(",", "")) if stated else None


def _code(reply: replies.ProviderReply) -> Any:
    """The more specific of the two codes in the envelope. Airtel's router answers without an envelope."""
    return reply.get("status", "response_code") or reply.get("status", "result_code") or reply.get("status_code")


def _meaning(reply: replies.ProviderReply, payment: PaymentOrder) -> replies.Meaning | None:
    return _REASONS.meaning(_code(reply), payment.direction)


def _shown_code(reply: replies.ProviderReply) -> str:
    return replies.code_or_message(_code(reply), reply.get("data", "transaction", "status"))


def _unclear(reply: replies.ProviderReply) -> ProviderAnswer:
    letters = reply.get("data", "transaction", "status")
    return replies.unclear(
        reply, letters, _code(reply), reply.get("data", "transaction", "message"), reply.get("status", "message")
    )


def _reference(payment: PaymentOrder) -> str:
    """The note for the subscriber. Airtel takes 4 to 64 characters."""
    text = replies.note(payment.note, _NOTE_MAX_CHARACTERS)
    return text if len(text) >= _NOTE_MIN_CHARACTERS else f"Payment {text}".strip()


def _msisdn(phone_number: str) -> str:
    """Airtel writes numbers without the country code."""
    return phone_number.removeprefix("+256")
