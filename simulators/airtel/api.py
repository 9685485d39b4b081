"""Airtel Money's API: its routes, the outcome of payments, and their callbacks."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from flask import Response, jsonify, request

from simulators.airtel.access import AirtelAuthorizer, AirtelSettings
from simulators.airtel.ciphers import callback_hash
from simulators.airtel.requests import (
    PAYOUT,
    PUSH,
    REFUND,
    check_msisdn,
    envelope,
    error_body,
    read_disbursement,
    read_json,
    read_push,
    read_refund,
    refusal,
)
from simulators.airtel.scenarios import (
    AMBIGUOUS,
    DECLINED,
    EXPIRED,
    FAILED,
    IN_PROGRESS,
    PAYOUT_DUPLICATE,
    PAYOUT_FORGED,
    PAYOUT_IN_PROCESS,
    PAYOUT_NOT_FOUND,
    PAYOUT_SHORT,
    PAYOUT_SUCCEEDS,
    PAYOUTS,
    PUSH_EXPIRED,
    PUSH_FORGED,
    PUSH_IN_PROCESS,
    PUSH_NOT_FOUND,
    PUSH_SUCCEEDS,
    PUSHES,
    SUCCEEDED,
    magic,
)
from simulators.book import BookedPayment, BookedStep, RequestedPayment
from simulators.layouts import AIRTEL_LAYOUTS, IN, OUT, REVERSAL, MovedLine
from simulators.standin import APPROVAL_SECONDS, ProviderRoute, Scenario, StandIn, second_thoughts
from simulators.switches import Switches

EARLIEST_ENQUIRY_SECONDS = 180.0
STATEMENT_STATUSES = {
    SUCCEEDED: "Transaction Success",
    FAILED: "Transaction Failed",
    EXPIRED: "Expired",
    IN_PROGRESS: "In Progress",
    AMBIGUOUS: "Ambiguous",
}


class AirtelMoney(StandIn):
    """The stand-in."""

    name = "Airtel Money"
    callback_method = "POST"
    layouts = AIRTEL_LAYOUTS
    final_statuses = (SUCCEEDED, FAILED)
    payout_kinds = (PAYOUT,)
    error = staticmethod(error_body)
    access: AirtelAuthorizer

    def __init__(
        self, settings: AirtelSettings | None = None, book_path: str = ":memory:", switches: Switches | None = None
    ) -> None:
        self.settings = settings or AirtelSettings()
        super().__init__(self.settings.currency, book_path, switches)
        self.access = AirtelAuthorizer(self.book, self.clock, self.settings)

    def routes(self) -> list[ProviderRoute]:
        """Returns every route; clients use both paths for enquiries about disbursements."""
        version = "<any(v1, v2):version>"
        payout = f"/standard/{version}/disbursements/<reference>"
        return [
            ProviderRoute("POST", "/auth/oauth2/token", "token", "token", self.access.issue_token),
            ProviderRoute("GET", "/v1/rsa/encryption-keys", "encryption_keys", "token", self.access.encryption_keys),
            ProviderRoute("POST", f"/merchant/{version}/payments/", PUSH, "submit", self.push),
            ProviderRoute("GET", "/standard/v1/payments/<reference>", "payment_status", "status", self.enquire),
            ProviderRoute("POST", f"/standard/{version}/payments/refund", REFUND, "submit", self.refund),
            ProviderRoute("POST", f"/standard/{version}/disbursements/", PAYOUT, "submit", self.disburse),
            ProviderRoute("GET", payout, "disbursement_status", "status", self.enquire, {"kind": PAYOUT}),
            ProviderRoute("GET", "/standard/v1/users/<msisdn>", "user", "account", self.user),
            ProviderRoute("GET", "/standard/v1/users/balance", "balance", "account", self.balance, {"version": "v1"}),
            ProviderRoute("GET", "/standard/v2/users/balance", "balance", "account", self.balance, {"version": "v2"}),
        ]

    def reference(self) -> str:
        """Returns the client's transaction id in a submission or an enquiry, Airtel's own in a refund."""
        arguments = request.view_args or {}
        if "reference" in arguments:
            return str(arguments["reference"])
        body = request.get_json(silent=True)
        transaction = body.get("transaction") if isinstance(body, dict) else None
        named = transaction if isinstance(transaction, dict) else {}
        return str(named.get("id") or named.get("airtel_money_id") or "")

    # Payments

    def push(self, version: str) -> Response:
        """Send the prompt to a payer; the response confirms the prompt, not the payment."""
        self.access.admit()
        if version == "v2":
            self.access.check_signature(PUSH_FORGED)
        requested = read_push(read_json(), self.settings.country, self.currency)
        switches = self.switches.now
        usual = PUSHES[DECLINED] if switches.declined else PUSH_SUCCEEDS
        scenario = PUSHES.get(magic(requested.party), usual)
        self._refuse_if_lost(scenario, requested)
        if self._accept(requested, self._push_steps(scenario, switches), self.settings.callback_url) is None:
            raise refusal(200, "ESB000041")
        returned_id: object = False if switches.id_false else requested.reference
        return jsonify(envelope({"transaction": {"id": returned_id, "status": "SUCCESS"}}, PUSH_IN_PROCESS))

    def disburse(self, version: str) -> Response:
        """Pay a subscriber; the response is final unless the switches or the magic number delay the outcome."""
        self.access.admit()
        self.access.check_signature(PAYOUT_FORGED, required=False)
        body = read_json()
        requested = read_disbursement(body, self.currency, version)
        self.access.check_pin(body.get("pin"))
        scenario = PAYOUTS.get(magic(requested.party), PAYOUT_SUCCEEDS)
        self._refuse_if_lost(scenario, requested)
        with self.book.transaction():
            if scenario.status == SUCCEEDED and requested.amount_cents > self.payout_float_cents():
                scenario = Scenario(FAILED, PAYOUT_SHORT)
            payment = self._accept(requested, self._payout_steps(scenario, self.switches.now))
        if payment is None:
            raise refusal(200, PAYOUT_DUPLICATE)
        step = payment.step_at(self.clock.now())
        transaction = {
            "reference_id": str(payment.details["reference_id"]),
            "airtel_money_id": payment.receipt,
            "id": payment.reference,
            "status": step.status,
        }
        message = _message(payment, step, payment.amount_cents // 100)
        success = step.status not in (FAILED, EXPIRED)
        return jsonify(envelope({"transaction": transaction}, step.reason, message=message, success=success))

    def enquire(self, reference: str, kind: str = "", version: str = "v1") -> Response:
        """Return the status of a payment; the envelope's success is that of the enquiry, not of the payment.

        v2 wants the type of the transaction.
        """
        self.access.admit()
        if version == "v2" and request.args.get("transactionType") not in ("B2C", "B2B"):
            raise refusal(400, "ESB000008")
        payment = self.visible_payment(reference)
        if payment is None or payment.kind not in ((kind,) if kind else (PUSH, PAYOUT)):
            raise refusal(404, PAYOUT_NOT_FOUND if kind else PUSH_NOT_FOUND)
        now = self.clock.now()
        if now < payment.accepted_at + EARLIEST_ENQUIRY_SECONDS:
            self.book.count_request("early_enquiry", reference)
        step = payment.step_at(now)
        transaction = {
            "airtel_money_id": payment.receipt if step.status in self.final_statuses else "",
            "id": payment.reference,
            "message": _message(payment, step, payment.amount_cents // 100),
            "status": step.status,
        }
        if payment.kind == PAYOUT:
            transaction["reference_id"] = str(payment.details["reference_id"])
        return jsonify(envelope({"transaction": transaction}, step.reason))

    def refund(self, version: str) -> Response:
        """Refund a payment, whole and once."""
        self.access.admit()
        if version == "v2":
            self.access.check_signature(PUSH_FORGED)
        receipt = read_refund(read_json())
        now = self.clock.now()
        with self.book.transaction():
            original = self.book.find_by_receipt(receipt)
            if original is None or original.kind != PUSH or original.step_at(now).status != SUCCEEDED:
                raise refusal(200, PUSH_NOT_FOUND)
            requested = RequestedPayment(
                reference=f"refund-{original.reference}",
                kind=REFUND,
                amount_cents=original.amount_cents,
                party=original.party,
                original=original.reference,
                details={"reference": "refund"},
            )
            if self._accept(requested, PUSH_SUCCEEDS.steps(now)) is None:
                raise refusal(200, "ESB000041")
        return jsonify(envelope({"transaction": {"airtel_money_id": receipt, "status": "SUCCESS"}}, ""))

    def callback(self, payment: BookedPayment, step: BookedStep, switches: Switches) -> dict[str, Any]:
        """Returns the body that the URL of the application receives."""
        amount = payment.amount_cents // 100 + int(switches.wrong_callback_amount)
        transaction = {
            "id": payment.reference,
            "message": _message(payment, step, amount),
            "status_code": step.status,
            "airtel_money_id": payment.receipt,
        }
        body: dict[str, Any] = {"transaction": transaction}
        if switches.callback_hash:
            body["hash"] = callback_hash(self.settings.client_secret, transaction)
        return body

    def _refuse_if_lost(self, scenario: Scenario, requested: RequestedPayment) -> None:
        if scenario.lost and self.book.request_count(requested.kind, requested.reference) == 1:
            raise refusal(200, "ESB000004")

    def _push_steps(self, scenario: Scenario, switches: Switches) -> tuple[BookedStep, ...]:
        now = self.clock.now()
        start = BookedStep(now, IN_PROGRESS, PUSH_IN_PROCESS)
        if scenario == PUSH_SUCCEEDS and switches.approve_delay_seconds >= APPROVAL_SECONDS:
            return (start, BookedStep(now + APPROVAL_SECONDS, EXPIRED, PUSH_EXPIRED))
        steps = (start, *scenario.steps(now + switches.approve_delay_seconds))
        return second_thoughts(steps, SUCCEEDED, (FAILED, "DP00800001009"), switches)

    def _payout_steps(self, scenario: Scenario, switches: Switches) -> tuple[BookedStep, ...]:
        now = self.clock.now()
        steps = scenario.steps(now)
        if switches.disbursements_pending:
            later = scenario.steps(now + switches.approve_delay_seconds)
            steps = (BookedStep(now, IN_PROGRESS, PAYOUT_IN_PROCESS), *later)
        return second_thoughts(steps, SUCCEEDED, (FAILED, "DP00900001005"), switches)

    def _accept(
        self, requested: RequestedPayment, steps: tuple[BookedStep, ...], callback_url: str = ""
    ) -> BookedPayment | None:
        with self.book.transaction():
            number = self.book.next_number()
            stamp = datetime.fromtimestamp(self.clock.now(), UTC).strftime("%y%m%d.%H%M")
            receipt = f"disburs-{number:010d}" if requested.kind == PAYOUT else f"MP{stamp}.L{number:05d}"
            details = {**requested.details, "reference_id": f"CI{stamp}.H{number:05d}"}
            return self.accept(replace(requested, details=details), steps, receipt, callback_url)

    def movement(self, payment: BookedPayment, step: BookedStep) -> MovedLine:
        """Returns the line for a payment; a reversal has the reference of the payment that it gives back."""
        kind = {PUSH: IN, PAYOUT: OUT}.get(payment.kind, REVERSAL)
        return MovedLine(
            receipt=payment.receipt,
            reference=payment.original or payment.reference,
            at=step.at,
            kind=kind,
            status=STATEMENT_STATUSES[step.status],
            cents=payment.amount_cents if kind == IN else -payment.amount_cents,
            party=payment.party,
            has_moved=step.status == SUCCEEDED,
        )

    # Accounts

    def user(self, msisdn: str) -> Response:
        """Return the name and the state of a subscriber."""
        self.access.admit()
        data = {
            "first_name": "Sand",
            "last_name": "Box",
            "grade": "SUBS",
            "is_barred": magic(check_msisdn(msisdn)) == "10",
            "is_pin_set": True,
            "msisdn": msisdn,
            "reg_status": "SUBS",
            "registration": {"id": "1", "status": "SUBS"},
        }
        return jsonify(envelope(data, "DP02200000001"))

    def balance(self, version: str) -> Response:
        """Return the client's balance; v2 selects the account with `?type=`."""
        self.access.admit()
        account = request.args.get("type", "COLL") if version == "v2" else "COLL"
        if account not in ("COLL", "DISB", "CASHIN", "CASHOUT"):
            raise refusal(400, "ESB000008")
        now = self.clock.now()
        collected_cents = self.book.paid_cents((PUSH,), now) - self.book.paid_cents((REFUND,), now)
        cents = collected_cents if account == "COLL" else self.payout_float_cents(now)
        data = {"balance": str(cents // 100), "currency": self.currency, "account_status": "Active"}
        return jsonify(envelope(data, "DP02100000001"))


def _message(payment: BookedPayment, step: BookedStep, amount: int) -> str:
    text = f"{payment.currency} {amount:,}"
    if step.status == SUCCEEDED:
        if payment.kind == PAYOUT:
            return f"You have sent {text}. TID {payment.details['reference_id']}"
        return f"Paid {text}. Trans ID {payment.receipt}"
    return {
        FAILED: f"The transaction of {text} has failed. Trans ID {payment.receipt}",
        AMBIGUOUS: f"The state of the transaction of {text} is not known yet",
        IN_PROGRESS: f"The transaction of {text} is in progress",
        EXPIRED: f"The transaction of {text} has expired",
    }[step.status]
