"""Airtel Money: pushes, disbursements and refunds over the Airtel Africa Open API."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any, Literal
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
from ussd_server.providers.airtel.encryption import Seal, seal_from
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
_NOTE_MAX_CHARACTERS = 60
_SEAL_LIFE_SECONDS = 600.0
_LETTERS = {
    "TS": Outcome.SUCCEEDED,
    "TF": Outcome.FAILED,
    "TE": Outcome.FAILED,  # expired
    "TA": Outcome.UNKNOWN,  # ambiguous
    "TIP": Outcome.PENDING,  # in progress
}

# Airtel wants no enquiry sooner than three minutes after the request.
AIRTEL_PACE = PollingSchedule(
    delays=(180.0, 60.0, 60.0, 120.0, 300.0, 600.0, 1800.0),
    not_found_means_lost_after=180.0,
    late_check_after=1800.0,
    give_up_after=21_600.0,
    per_second=5.0,
)


@dataclass(frozen=True, slots=True)
class AirtelAccess:
    """How Airtel is reached.

    `version` v2 signs every body. The PIN of disbursements is given plain in `pin`, or as Airtel's portal encrypted it
    in `encrypted_pin`. `disbursement_enquiry_path` takes `{id}`: two paths are in use.
    """

    base_url: str
    client_id: str
    client_secret: str = field(repr=False)
    country: str = "UG"
    currency: str = "UGX"
    version: Literal["v1", "v2"] = "v1"
    pin: str | None = field(default=None, repr=False)
    encrypted_pin: str | None = field(default=None, repr=False)
    disbursement_enquiry_path: str = "/standard/v1/disbursements/{id}"
    least_shillings: int = 500
    most_shillings: int = 5_000_000


class AirtelProvider:
    """Moves money over Airtel. Wire format: the Airtel Africa Open API; result codes: `failure_reasons.csv`."""

    name = "airtel"
    moves_whole_shillings_only = True
    refunds_in_full_only = True

    def __init__(
        self,
        access: AirtelAccess,
        transport: Transport,
        *,
        pace: PollingSchedule = AIRTEL_PACE,
        breaker: Breaker | None = None,
    ) -> None:
        self.pace = pace
        self._access = access
        self._breaker = breaker or Breaker()
        self._line = ProviderConnection(access.base_url, transport, self._breaker)
        self._tokens = AccessTokens(self._fetch_token, self._breaker)
        self._seal: tuple[float, Seal] | None = None

    @property
    def available(self) -> bool:
        """False while Airtel is left alone after trouble."""
        return not self._breaker.rests

    def ask(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """Ask Airtel to move the money; an id that Airtel knows already is pending until an enquiry says more."""
        until = time.monotonic() + timeout_seconds
        refusal = amount_refusal(payment, self._access.least_shillings, self._access.most_shillings)
        if refusal is not None:
            return refusal
        if payment.direction is Direction.REFUND and not payment.original_provider_transaction_id:
            return failed(FailureCode.PROVIDER_ERROR, "no airtel money id to refund")
        if payment.direction is Direction.DISBURSEMENT and not (self._access.pin or self._access.encrypted_pin):
            return failed(FailureCode.PROVIDER_CONFIG, "no PIN")
        return _asked(self._post(payment, until), payment)

    def enquire(self, payment: PaymentOrder, timeout_seconds: float) -> ProviderAnswer:
        """Ask Airtel what became of the payment. A refund has no id there, so nothing can be learnt of it."""
        if payment.direction is Direction.REFUND:
            return ProviderAnswer(Outcome.UNKNOWN)
        path = "/standard/v1/payments/{id}"
        if payment.direction is Direction.DISBURSEMENT:
            path = self._access.disbursement_enquiry_path
        reply = self._get(path.replace("{id}", quote(payment.provider_reference)), time.monotonic() + timeout_seconds)
        told = _told(reply, payment)
        if told is not None:
            return told
        meaning = _meaning(reply, payment)
        if meaning is Standing.NOT_FOUND:
            return ProviderAnswer(Outcome.NOT_FOUND, word=_company_word(reply))
        outcome = Outcome.PENDING if meaning is Standing.PENDING else Outcome.UNKNOWN
        return ProviderAnswer(outcome, word=_company_word(reply))

    def balance_cents(self, direction: Direction, timeout_seconds: float) -> int | None:
        """Our float with Airtel in cents, None when it cannot be learnt now."""
        path = "/standard/v1/users/balance"
        if self._access.version == "v2":
            path = f"/standard/v2/users/balance?type={'COLL' if direction is Direction.COLLECTION else 'DISB'}"
        reply = self._get(path, time.monotonic() + timeout_seconds)
        if reply.status != 200 or reply.get("data", "currency") not in (None, self._access.currency):
            return None
        return cents(reply.get("data", "balance"))

    def lookup_name(self, phone_number: str, timeout_seconds: float) -> str | None:
        """The first and last name that Airtel holds for a number, None when it cannot be learnt."""
        reply = self._get(f"/standard/v1/users/{quote(_msisdn(phone_number))}", time.monotonic() + timeout_seconds)
        if reply.status != 200:
            return None
        return full_name(reply.get("data", "first_name"), reply.get("data", "last_name"))

    def reference_in(self, callback: bytes) -> str | None:
        """The reference in a callback: the id that we gave the transaction."""
        return uuid_in(ProviderReply(SendState.ANSWERED, 200, parse(callback)).get("transaction", "id"))

    def _post(self, payment: PaymentOrder, until: float) -> ProviderReply:
        """Send the request that a payment needs, sealed and signed as the version wants it."""
        seal = None
        if self._access.version == "v2" or (
            payment.direction is Direction.DISBURSEMENT and not self._access.encrypted_pin
        ):
            seal = self._current_seal(until)
            if seal is None:
                return NOT_SENT
        body = json.dumps(self._document(payment, seal), separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json"}
        if self._access.version == "v2" and seal is not None:
            headers |= seal.signature_headers(body)
        return self._authorised("POST", self._path(payment.direction), headers, body, until)

    def _path(self, direction: Direction) -> str:
        version = self._access.version
        return {
            Direction.COLLECTION: f"/merchant/{version}/payments/",
            Direction.DISBURSEMENT: f"/standard/{version}/disbursements/",
            Direction.REFUND: f"/standard/{version}/payments/refund",
        }[direction]

    def _document(self, payment: PaymentOrder, seal: Seal | None) -> dict[str, Any]:
        if payment.direction is Direction.REFUND:
            return {"transaction": {"airtel_money_id": payment.original_provider_transaction_id}}
        reference = note(payment.note, _NOTE_MAX_CHARACTERS) or "Payment"
        msisdn = _msisdn(payment.phone_number)
        transaction: dict[str, Any] = {"amount": payment.amount_cents // 100, "id": payment.provider_reference}
        place = {"country": self._access.country, "currency": self._access.currency}
        if payment.direction is Direction.COLLECTION:
            return {
                "reference": reference,
                "subscriber": place | {"msisdn": msisdn},
                "transaction": transaction | place,
            }
        payee = {"msisdn": msisdn}
        if self._access.version == "v2":
            payee["currency"] = self._access.currency
            transaction["type"] = "B2C"
        pin = self._access.encrypted_pin
        if pin is None and seal is not None:
            pin = seal.sealed((self._access.pin or "").encode())
        return {"payee": payee, "reference": reference, "pin": pin, "transaction": transaction}

    def _get(self, path: str, until: float) -> ProviderReply:
        return self._authorised("GET", path, {}, b"", until)

    def _authorised(self, method: str, path: str, headers: dict[str, str], body: bytes, until: float) -> ProviderReply:
        def send(token: str) -> ProviderReply:
            own = {
                "Authorization": f"Bearer {token}",
                "X-Country": self._access.country,
                "X-Currency": self._access.currency,
                "Accept": "*/*",
            }
            return self._line.call(method, path, own | headers, body, until)

        return self._tokens.authorise(send, until)

    def _fetch_token(self, until: float) -> ProviderReply:
        document = {
            "client_id": self._access.client_id,
            "client_secret": self._access.client_secret,
            "grant_type": "client_credentials",
        }
        headers = {"Content-Type": "application/json", "Accept": "*/*"}
        return self._line.call("POST", "/auth/oauth2/token", headers, json.dumps(document).encode(), until)

    def _current_seal(self, until: float) -> Seal | None:
        known = self._seal
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        seal = seal_from(self._get("/v1/rsa/encryption-keys", until).get("data", "key"))
        if seal is not None:
            self._seal = (time.monotonic() + _SEAL_LIFE_SECONDS, seal)
        return seal


def _asked(reply: ProviderReply, payment: PaymentOrder) -> ProviderAnswer:
    """What the answer to a request proves: a push that was sent is pending, whatever its envelope calls a success."""
    if reply.reach is SendState.NOT_SENT:
        return ProviderAnswer(Outcome.NOT_SENT)
    told = _told(reply, payment)
    if told is not None:
        return told
    if reply.status == 200 and reply.get("data", "transaction", "status") == "SUCCESS":
        if payment.direction is not Direction.REFUND:
            return ProviderAnswer(Outcome.PENDING)
        return _succeeded(reply)
    meaning = _meaning(reply, payment)
    # A gateway that breaks down behind an accepted request answers in the 500s: that proves nothing.
    if isinstance(meaning, FailureCode) and reply.status < 500:
        return failed(meaning, _company_word(reply))
    if meaning in (Standing.PENDING, Standing.DUPLICATE):
        return ProviderAnswer(Outcome.PENDING, word=_company_word(reply))
    return ProviderAnswer(Outcome.UNKNOWN, word=_company_word(reply))


def _told(reply: ProviderReply, payment: PaymentOrder) -> ProviderAnswer | None:
    """What the letters of the transaction prove; None without letters, for the envelope speaks of the call alone."""
    transaction_id, letters = reply.get("data", "transaction", "id"), reply.get("data", "transaction", "status")
    if reply.status != 200 or not isinstance(letters, str) or letters not in _LETTERS:
        return None
    # Airtel has been seen to answer a push with `"id": false`; an id that is there must be ours.
    if isinstance(transaction_id, str) and transaction_id != payment.provider_reference:
        return ProviderAnswer(Outcome.UNKNOWN, word="another payment")
    outcome = _LETTERS[letters]
    if outcome is Outcome.SUCCEEDED:
        return _succeeded(reply)
    if letters == "TE":
        return failed(FailureCode.PAYER_TIMEOUT, letters)
    if outcome is Outcome.FAILED:
        return failed(_REASONS.failure(_code(reply), payment.direction), _company_word(reply))
    return ProviderAnswer(outcome, word=letters)


def _succeeded(reply: ProviderReply) -> ProviderAnswer:
    receipt = word(reply.get("data", "transaction", "airtel_money_id")) or None
    return ProviderAnswer(
        Outcome.SUCCEEDED, provider_transaction_id=receipt, word=word(reply.get("data", "transaction", "status"))
    )


def _code(reply: ProviderReply) -> Any:
    """The more telling of the two codes in the envelope: the other one is generic."""
    return reply.get("status", "response_code") or reply.get("status", "result_code")


def _meaning(reply: ProviderReply, payment: PaymentOrder) -> Meaning | None:
    return _REASONS.meaning(_code(reply), payment.direction)


def _company_word(reply: ProviderReply) -> str:
    return word(_code(reply), reply.get("data", "transaction", "status"))


def _msisdn(phone_number: str) -> str:
    """Airtel writes numbers without the country code."""
    return phone_number.removeprefix("+256")
