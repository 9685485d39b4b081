"""MTN MoMo itself: its calls, what becomes of a payment, and the callback that tells of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from flask import Response, jsonify, request

from simulators.book import Payment, Step
from simulators.mtn.access import Access, json_body_or_refuse, reference_id, refuse_a_body
from simulators.mtn.errors import error_body, malformed, refusal
from simulators.mtn.orders import DEPOSIT, KINDS, PARTIES, REFUND, REQUEST_TO_PAY, TRANSFER, Kind, Order, read_order
from simulators.mtn.scenarios import (
    AMOUNTS,
    FAILED,
    HOLDERS,
    PAYEES,
    PAYERS,
    PENDING,
    REFUNDS,
    REFUSED_AT_ONCE,
    SUCCESS,
    SUCCESSFUL,
    Scenario,
)
from simulators.standin import Route, StandIn, empty, second_thoughts
from simulators.switches import Switches

APPROVAL_SECONDS = 300.0
FIRST_TRANSACTION_ID = 23_503_451


@dataclass(frozen=True, slots=True)
class MtnSettings:
    """How this MTN is set up. Any environment but `sandbox` is a live one, whose API user is given here."""

    target_environment: str = "sandbox"
    currency: str = "EUR"
    subscription_keys: Mapping[str, str] = field(
        default_factory=lambda: {
            "collection": "collection-key",
            "disbursement": "disbursement-key",
            "remittance": "remittance-key",
        }
    )
    api_user: str = ""
    api_key: str = ""
    callback_host: str = "127.0.0.1"
    token_seconds: int = 3600

    @property
    def live(self) -> bool:
        """Whether this is a live environment, with its stricter rules."""
        return self.target_environment != "sandbox"


class MtnMomo(StandIn):
    """The stand-in. Callbacks go by plain http too, since listeners in tests have no certificate."""

    callback_method = "PUT"

    def __init__(
        self, settings: MtnSettings | None = None, book_path: str = ":memory:", switches: Switches | None = None
    ) -> None:
        self.settings = settings or MtnSettings()
        self.access = Access(self)
        super().__init__(book_path, switches)

    def furnish(self) -> None:
        """Keep the API user of the settings."""
        self.access.furnish()

    def routes(self) -> list[Route]:
        """Every call of the products, and the sandbox's provisioning."""
        products = "<any(collection, disbursement, remittance):product>"
        wallets = "<any(collection, disbursement):product>/v1_0"
        holder = f"/{wallets}/accountholder/<party_type>/<party>"
        payments = [
            route
            for kind in KINDS
            for path in (f"/{kind.product}/v1_0/{kind.name}",)
            for route in (
                Route("POST", path, kind.name, "submit", self.submit, {"kind": kind}),
                Route("GET", f"{path}/<reference>", f"{kind.name}_status", "status", self.status, {"kind": kind}),
            )
        ]
        return [
            Route("POST", "/v1_0/apiuser", "apiuser", "provisioning", self.create_user),
            Route("GET", "/v1_0/apiuser/<user>", "apiuser_read", "provisioning", self.show_user),
            Route("POST", "/v1_0/apiuser/<user>/apikey", "apikey", "provisioning", self.create_key),
            Route("POST", f"/{products}/token/", "token", "token", self.issue_token),
            *payments,
            Route("GET", f"/{wallets}/account/balance", "balance", "account", self.balance),
            Route("GET", f"{holder}/active", "active", "account", self.active),
            Route("GET", f"{holder}/basicuserinfo", "basicuserinfo", "account", self.basic_user_info),
        ]

    def reference(self) -> str:
        """X-Reference-Id of a submission, the id in the path of a status question."""
        arguments = request.view_args or {}
        return str(arguments.get("reference") or request.headers.get("X-Reference-Id", "")).lower()

    def error(self, status: int, code: str = "") -> Mapping[str, Any]:
        """An error in MTN's format."""
        return error_body(status, code)

    # Provisioning and tokens

    def create_user(self) -> Response:
        """Make an API user."""
        self.access.create_user()
        return empty(201)

    def show_user(self, user: str) -> Response:
        """Show an API user."""
        return jsonify(self.access.show_user(user))

    def create_key(self, user: str) -> Response:
        """Make an API key."""
        answer = jsonify(apiKey=self.access.create_key(user))
        answer.status_code = 201
        return answer

    def issue_token(self, product: str) -> Response:
        """Give a token."""
        token = self.access.issue_token(product)
        return jsonify(access_token=token, token_type="access_token", expires_in=self.settings.token_seconds)

    # Payments

    def submit(self, kind: Kind) -> Response:
        """Accept a payment: 202 and an empty body."""
        user = self.access.admit(kind.product)
        reference = reference_id()
        order = read_order(kind, json_body_or_refuse(), self.settings.currency)
        callback_url = self._callback_url(user)
        switches = self.switches.now
        with self.book.exclusively():
            if self.book.find(reference) is not None:
                raise refusal(409)
            scenario = self._scenario(order, switches)
            if switches.refuse_at_once and scenario.reason in REFUSED_AT_ONCE:
                raise refusal(503 if scenario.reason == "SERVICE_UNAVAILABLE" else 500, scenario.reason)
            payment = self._payment(reference, order, scenario, callback_url, switches)
            told = tuple(number for number, step in enumerate(payment.steps) if step.status != PENDING)
            self.enter(payment, told)
        return empty(202)

    def status(self, kind: Kind, reference: str) -> Response:
        """Tell how a payment stands."""
        self.access.admit(kind.product)
        refuse_a_body()
        now, switches = self.clock.now(), self.switches.now
        payment = self.book.find(reference.lower())
        if payment is None or payment.kind != kind.name or now < payment.accepted_at + switches.hidden_seconds:
            raise refusal(404)
        return jsonify(_resource(payment, payment.step_at(now), switches))

    def callback(self, payment: Payment, step: Step, switches: Switches) -> dict[str, Any]:
        """The body of a status answer, as it stands at that step."""
        body = _resource(payment, step, switches)
        if switches.wrong_callback_amount:
            body["amount"] = str(payment.amount_cents // 100 + 1)
        return body

    def _callback_url(self, user: str) -> str:
        url = request.headers.get("X-Callback-Url")
        if url is None:
            return ""
        try:
            parts = urlsplit(url)
        except ValueError:
            raise malformed("X-Callback-Url is an address") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise malformed("X-Callback-Url is an address")
        if self.settings.live and parts.hostname != self.access.callback_host(user).lower():
            raise refusal(500, "INVALID_CALLBACK_URL_HOST")
        return url

    def _scenario(self, order: Order, switches: Switches) -> Scenario:
        if order.kind is REQUEST_TO_PAY:
            chosen = PAYERS.get(order.party)
        elif order.kind is REFUND:
            chosen = REFUNDS.get(order.original) or self._refund_scenario(order)
        else:
            chosen = PAYEES.get(order.party)
        if chosen is None and switches.amount_scenarios:
            chosen = AMOUNTS.get(order.amount_cents)
        chosen = chosen or SUCCESS
        pays_out = chosen.status == SUCCESSFUL and order.kind is not REQUEST_TO_PAY
        if pays_out and order.amount_cents > self._balance_cents("disbursement", None):
            return Scenario(FAILED, "NOT_ENOUGH_FUNDS")
        return chosen

    def _refund_scenario(self, order: Order) -> Scenario | None:
        """A refund gives back a payment that succeeded, in parts or whole, and never more than was paid."""
        original = self.book.find(order.original.lower())
        if original is None or original.step_at(self.clock.now()).status != SUCCESSFUL:
            return Scenario(FAILED, "RESOURCE_NOT_FOUND")
        given_back = sum(refund.amount_cents for refund in self.book.refunds(original.reference) if refund.paid_at)
        return Scenario(FAILED, "NOT_ALLOWED") if given_back + order.amount_cents > original.amount_cents else None

    def _payment(
        self, reference: str, order: Order, scenario: Scenario, callback_url: str, switches: Switches
    ) -> Payment:
        now = self.clock.now()
        steps: tuple[Step, ...] = (Step(now, PENDING),)
        wait_seconds = switches.approve_delay_seconds + scenario.extra_seconds
        if order.kind is REQUEST_TO_PAY and scenario.status == SUCCESSFUL and wait_seconds >= APPROVAL_SECONDS:
            steps = (*steps, Step(now + APPROVAL_SECONDS, FAILED, "EXPIRED"))
        elif scenario.status != PENDING:
            steps = (*steps, Step(now + wait_seconds, scenario.status, scenario.reason))
        steps = second_thoughts(steps, SUCCESSFUL, (FAILED, "INTERNAL_PROCESSING_ERROR"), switches)
        return Payment(
            reference=reference,
            kind=order.kind.name,
            amount_cents=order.amount_cents,
            currency=self.settings.currency,
            party=order.party,
            receipt=str(FIRST_TRANSACTION_ID + self.book.next_number()),
            accepted_at=now,
            steps=steps,
            paid_at=steps[-1].at if steps[-1].status == SUCCESSFUL else None,
            original=order.original.lower(),
            callback_url=callback_url,
            details=order.details,
        )

    # Accounts

    def balance(self, product: str) -> Response:
        """The client's own money in one product."""
        self.access.admit(product)
        refuse_a_body()
        whole, cents = divmod(self._balance_cents(product, self.clock.now()), 100)
        available = f"{whole}.{cents:02d}" if cents else str(whole)
        return jsonify(availableBalance=available, currency=self.settings.currency)

    def _balance_cents(self, product: str, by: float | None) -> int:
        if product == "collection":
            return self.book.paid_cents((REQUEST_TO_PAY.name,), by)
        opening_cents = self.switches.now.opening_balance * 100
        return opening_cents - self.book.paid_cents((TRANSFER.name, DEPOSIT.name, REFUND.name), by)

    def active(self, product: str, party_type: str, party: str) -> Response:
        """Whether somebody has an active wallet."""
        return jsonify(result=self._is_active(product, party_type, party))

    def basic_user_info(self, product: str, party_type: str, party: str) -> Response:
        """Whose wallet it is."""
        active = self._is_active(product, party_type, party)
        return jsonify(
            given_name="Sand",
            family_name="Box",
            birthdate="1976-08-13",
            locale="sv_SE",
            gender="MALE",
            status="ACTIVE" if active else "INACTIVE",
        )

    def _is_active(self, product: str, party_type: str, party: str) -> bool:
        self.access.admit(product)
        refuse_a_body()
        if party_type.upper() not in PARTIES or not PARTIES[party_type.upper()].fullmatch(party):
            raise malformed("the account holder is a type and an id")
        status, code = HOLDERS.get(party, (200, "ACTIVE"))
        if status != 200:
            raise refusal(status, code)
        return code == "ACTIVE"


def _resource(payment: Payment, step: Step, switches: Switches) -> dict[str, Any]:
    body = {**payment.details, "status": step.status}
    if step.status == SUCCESSFUL:
        body["financialTransactionId"] = payment.receipt
    if step.status == FAILED:
        message = f"Refused: {step.reason.replace('_', ' ').lower()}."
        body["reason"] = {"code": step.reason, "message": message} if switches.reason_as_object else step.reason
    return body
