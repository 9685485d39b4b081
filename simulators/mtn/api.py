"""MTN MoMo's API: its routes, the outcome of payments, and their callbacks."""

from typing import Any
from urllib.parse import urlsplit

from flask import Response, jsonify, request

from simulators.book import BookedPayment, BookedStep, RequestedPayment
from simulators.layouts import IN, MTN_LAYOUTS, OUT, REVERSAL, MovedLine
from simulators.mtn.access import MtnAuthorizer, MtnSettings
from simulators.mtn.requests import (
    DEPOSIT,
    KINDS,
    PARTIES,
    REFUND,
    REQUEST_TO_PAY,
    TRANSFER,
    MtnPaymentKind,
    error_body,
    malformed,
    read_json,
    read_payment,
    reference_id,
    refusal,
    refuse_a_body,
)
from simulators.mtn.scenarios import (
    AMOUNTS,
    DECLINED,
    FAILED,
    HOLDERS,
    PAYEES,
    PAYERS,
    PENDING,
    REFUNDS,
    REFUSED_AT_ONCE,
    SUCCESS,
    SUCCESSFUL,
)
from simulators.standin import APPROVAL_SECONDS, ProviderRoute, Scenario, StandIn, empty_response, second_thoughts
from simulators.switches import Switches

FIRST_TRANSACTION_ID = 23_503_451


class MtnMomo(StandIn):
    """The stand-in. Sends callbacks to plain http URLs too, since the listeners of tests have no certificate."""

    name = "MTN MoMo"
    callback_method = "PUT"
    layouts = MTN_LAYOUTS
    final_statuses = (SUCCESSFUL, FAILED)
    payout_kinds = (TRANSFER.name, DEPOSIT.name, REFUND.name)
    error = staticmethod(error_body)
    access: MtnAuthorizer

    def __init__(
        self, settings: MtnSettings | None = None, book_path: str = ":memory:", switches: Switches | None = None
    ) -> None:
        self.settings = settings or MtnSettings()
        super().__init__(self.settings.currency, book_path, switches)
        self.access = MtnAuthorizer(self.book, self.clock, self.settings)

    def routes(self) -> list[ProviderRoute]:
        """Returns the routes of the products, and the sandbox's provisioning."""
        products = "<any(collection, disbursement, remittance):product>"
        wallets = "<any(collection, disbursement):product>/v1_0"
        holder = f"/{wallets}/accountholder/<party_type>/<party>"
        payments = []
        for kind in KINDS:
            path, fixed = f"/{kind.product}/v1_0/{kind.name}", {"kind": kind}
            payments += [
                ProviderRoute("POST", path, kind.name, "submit", self.submit, fixed),
                ProviderRoute("GET", f"{path}/<reference>", f"{kind.name}_status", "status", self.status, fixed),
            ]
        return [
            ProviderRoute("POST", "/v1_0/apiuser", "apiuser", "provisioning", self.access.create_user),
            ProviderRoute("GET", "/v1_0/apiuser/<user>", "apiuser_read", "provisioning", self.access.show_user),
            ProviderRoute("POST", "/v1_0/apiuser/<user>/apikey", "apikey", "provisioning", self.access.create_key),
            ProviderRoute("POST", f"/{products}/token/", "token", "token", self.access.issue_token),
            *payments,
            ProviderRoute("GET", f"/{wallets}/account/balance", "balance", "account", self.balance),
            ProviderRoute("GET", f"/{wallets}/account/balance/<currency>", "balance", "account", self.balance),
            ProviderRoute("GET", f"{holder}/active", "active", "account", self.active),
            ProviderRoute("GET", f"{holder}/basicuserinfo", "basicuserinfo", "account", self.basic_user_info),
        ]

    def reference(self) -> str:
        """Returns X-Reference-Id of a submission, or the id in the path of a status request."""
        arguments = request.view_args or {}
        return str(arguments.get("reference") or request.headers.get("X-Reference-Id", "")).lower()

    # Payments

    def submit(self, kind: MtnPaymentKind) -> Response:
        """Accept a payment: 202 and an empty body."""
        user = self.access.admit(kind.product)
        requested = read_payment(kind, reference_id(), read_json(), self.currency)
        callback_url = self._callback_url(user)
        switches = self.switches.now
        with self.book.transaction():
            if self.book.find(requested.reference) is not None:
                raise refusal(409)
            scenario = self._scenario(requested, switches)
            if switches.refuse_at_once and scenario.reason in REFUSED_AT_ONCE:
                raise refusal(503 if scenario.reason == "SERVICE_UNAVAILABLE" else 500, scenario.reason)
            receipt = str(FIRST_TRANSACTION_ID + self.book.next_number())
            self.accept(requested, self._steps(requested.kind, scenario, switches), receipt, callback_url)
        return empty_response(202)

    def status(self, kind: MtnPaymentKind, reference: str) -> Response:
        """Return the status of a payment."""
        self.access.admit(kind.product)
        refuse_a_body()
        payment = self.visible_payment(reference.lower())
        if payment is None or payment.kind != kind.name:
            raise refusal(404)
        return jsonify(_resource(payment, payment.step_at(self.clock.now()), self.switches.now))

    def callback(self, payment: BookedPayment, step: BookedStep, switches: Switches) -> dict[str, Any]:
        """Returns the body of a status response, as it is at that step."""
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

    def _scenario(self, requested: RequestedPayment, switches: Switches) -> Scenario:
        collects = requested.kind == REQUEST_TO_PAY.name
        if collects:
            chosen = PAYERS.get(requested.party) or (DECLINED if switches.declined else None)
        elif requested.kind == REFUND.name:
            chosen = REFUNDS.get(requested.original) or self._refund_scenario(requested)
        else:
            chosen = PAYEES.get(requested.party)
        if chosen is None and switches.amount_scenarios:
            chosen = AMOUNTS.get(requested.amount_cents)
        chosen = chosen or SUCCESS
        if chosen.status == SUCCESSFUL and not collects and requested.amount_cents > self.payout_float_cents():
            return Scenario(FAILED, "NOT_ENOUGH_FUNDS")
        return chosen

    def _refund_scenario(self, requested: RequestedPayment) -> Scenario | None:
        """Refund a payment that succeeded, in parts or whole, and never more than was paid."""
        original = self.book.find(requested.original)
        if original is None or original.step_at(self.clock.now()).status != SUCCESSFUL:
            return Scenario(FAILED, "RESOURCE_NOT_FOUND")
        refunded = sum(refund.amount_cents for refund in self.book.refunds_of(original.reference) if refund.paid_at)
        return Scenario(FAILED, "NOT_ALLOWED") if refunded + requested.amount_cents > original.amount_cents else None

    def _steps(self, kind: str, scenario: Scenario, switches: Switches) -> tuple[BookedStep, ...]:
        now = self.clock.now()
        steps: tuple[BookedStep, ...] = (BookedStep(now, PENDING),)
        wait_seconds = switches.approve_delay_seconds + scenario.seconds
        if kind == REQUEST_TO_PAY.name and scenario.status == SUCCESSFUL and wait_seconds >= APPROVAL_SECONDS:
            steps = (*steps, BookedStep(now + APPROVAL_SECONDS, FAILED, "EXPIRED"))
        elif scenario.status != PENDING:
            steps = (*steps, *scenario.steps(now + switches.approve_delay_seconds))
        return second_thoughts(steps, SUCCESSFUL, (FAILED, "INTERNAL_PROCESSING_ERROR"), switches)

    def movement(self, payment: BookedPayment, step: BookedStep) -> MovedLine:
        """Returns the line for a payment; a refund is a reversal with its own external id."""
        kind = {REQUEST_TO_PAY.name: IN, REFUND.name: REVERSAL}.get(payment.kind, OUT)
        return MovedLine(
            receipt=payment.receipt,
            reference=str(payment.details.get("externalId") or payment.reference),
            at=step.at,
            kind=kind,
            status=step.status.capitalize(),
            cents=payment.amount_cents if kind == IN else -payment.amount_cents,
            party=payment.party,
            has_moved=step.status == SUCCESSFUL,
            currency=payment.currency,
        )

    # Accounts

    def balance(self, product: str, currency: str | None = None) -> Response:
        """Return the client's balance in one product, in its only currency."""
        self.access.admit(product)
        refuse_a_body()
        if currency not in (None, self.currency):
            raise refusal(500, "INVALID_CURRENCY")
        now = self.clock.now()
        collection = product == "collection"
        balance_cents = (
            self.book.paid_cents((REQUEST_TO_PAY.name,), now) if collection else self.payout_float_cents(now)
        )
        whole, cents = divmod(balance_cents, 100)
        available = f"{whole}.{cents:02d}" if cents else str(whole)
        return jsonify(availableBalance=available, currency=self.currency)

    def active(self, product: str, party_type: str, party: str) -> Response:
        """Return whether an account holder has an active wallet."""
        return jsonify(result=self._is_active(product, party_type, party))

    def basic_user_info(self, product: str, party_type: str, party: str) -> Response:
        """Return the name of an account holder."""
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


def _resource(payment: BookedPayment, step: BookedStep, switches: Switches) -> dict[str, Any]:
    body = {**payment.details, "status": step.status}
    if step.status == SUCCESSFUL:
        body["financialTransactionId"] = payment.receipt
    if step.status == FAILED:
        message = f"Refused: {step.reason.replace('_', ' ').lower()}."
        body["reason"] = {"code": step.reason, "message": message} if switches.reason_as_object else step.reason
    return body
