"""Airtel Money itself: its calls, what becomes of a payment, and the callback that tells of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from flask import Response, jsonify, request

from simulators.airtel.access import TOKEN_SECONDS, Access, body_or_refuse
from simulators.airtel.ciphers import callback_hash
from simulators.airtel.envelopes import envelope, error_body, refusal
from simulators.airtel.orders import Order, check_msisdn, read_disbursement, read_push, read_refund
from simulators.airtel.scenarios import (
    AMBIGUOUS,
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
    Outcome,
    magic,
)
from simulators.book import Payment, Step
from simulators.standin import Route, StandIn, second_thoughts
from simulators.switches import Switches

PUSH, PAYOUT, REFUND = "payment", "disbursement", "refund"
APPROVAL_SECONDS = 300.0
EARLIEST_ENQUIRY_SECONDS = 180.0
KEY_DAYS = 365


@dataclass(frozen=True, slots=True)
class AirtelSettings:
    """How this Airtel is set up; `callback_url` is the one address the application registered, empty for none."""

    client_id: str = "airtel-client"
    client_secret: str = "airtel-secret"
    pin: str = "1234"
    country: str = "UG"
    currency: str = "UGX"
    callback_url: str = ""


class AirtelMoney(StandIn):
    """The stand-in."""

    def __init__(
        self, settings: AirtelSettings | None = None, book_path: str = ":memory:", switches: Switches | None = None
    ) -> None:
        self.settings = settings or AirtelSettings()
        self.access = Access(self)
        super().__init__(book_path, switches)

    def furnish(self) -> None:
        """Make the RSA key."""
        self.access.furnish()

    def routes(self) -> list[Route]:
        """Every call the company offers; both addresses for asking after a disbursement are in use."""
        version = "<any(v1, v2):version>"
        payments = f"/standard/{version}/payments"
        return [
            Route("POST", "/auth/oauth2/token", "token", "token", self.issue_token),
            Route("GET", "/v1/rsa/encryption-keys", "encryption_keys", "token", self.encryption_keys),
            Route("POST", f"/merchant/{version}/payments/", PUSH, "submit", self.push),
            Route("GET", "/standard/v1/payments/<reference>", "payment_status", "status", self.enquire),
            Route("POST", f"{payments}/refund", REFUND, "submit", self.refund),
            Route("POST", f"/standard/{version}/disbursements/", PAYOUT, "submit", self.disburse),
            Route(
                "GET",
                "/standard/v1/disbursements/<reference>",
                "disbursement_status",
                "status",
                self.enquire,
                {"kind": PAYOUT},
            ),
            Route("GET", "/standard/v1/users/<msisdn>", "user", "account", self.user),
            Route("GET", "/standard/v1/users/balance", "balance", "account", self.balance, {"version": "v1"}),
            Route("GET", "/standard/v2/users/balance", "balance", "account", self.balance, {"version": "v2"}),
        ]

    def reference(self) -> str:
        """The client's transaction id in a submission or a status question, Airtel's own in a refund."""
        arguments = request.view_args or {}
        if "reference" in arguments:
            return str(arguments["reference"])
        body = request.get_json(silent=True)
        transaction = body.get("transaction") if isinstance(body, dict) else None
        named = transaction if isinstance(transaction, dict) else {}
        return str(named.get("id") or named.get("airtel_money_id") or "")

    def error(self, status: int, code: str = "") -> Mapping[str, Any]:
        """An error in Airtel's envelope."""
        return error_body(status, code)

    # Tokens and keys

    def issue_token(self) -> Response:
        """Give a token."""
        return jsonify(access_token=self.access.issue_token(), expires_in=str(TOKEN_SECONDS), token_type="bearer")

    def encryption_keys(self) -> Response:
        """Publish the RSA key."""
        self.access.admit()
        valid_upto = datetime.fromtimestamp(self.clock.now(), UTC) + timedelta(days=KEY_DAYS)
        data = {
            "key_id": "1",
            "key": self.access.keys().published(),
            "valid_upto": valid_upto.strftime("%d-%m-%Y %H:%M:%S"),
        }
        return jsonify(envelope(data, "DP02010001001"))

    # Payments

    def push(self, version: str) -> Response:
        """Send a payer the prompt; the answer says that it was sent, and nothing about the money."""
        self.access.admit()
        if version == "v2":
            self.access.check_signature(PUSH_FORGED)
        order = read_push(body_or_refuse(), self.settings.country, self.settings.currency)
        outcome = PUSHES.get(magic(order.msisdn), PUSH_SUCCEEDS)
        self._refuse_a_lost_one(outcome, PUSH, order.id)
        switches = self.switches.now
        with self.book.exclusively():
            payment = self._payment(order, self._push_steps(outcome, switches), PUSH)
            told = tuple(n for n, step in enumerate(payment.steps) if step.status in (SUCCEEDED, FAILED))
            if not self.enter(payment, told):
                raise refusal(200, "ESB000041")
        answered_id: object = False if switches.id_false else order.id
        return jsonify(envelope({"transaction": {"id": answered_id, "status": "SUCCESS"}}, PUSH_IN_PROCESS))

    def disburse(self, version: str) -> Response:
        """Pay a subscriber; the answer is final unless the switches or the number say otherwise."""
        self.access.admit()
        self.access.check_signature(PAYOUT_FORGED, required=False)
        body = body_or_refuse()
        order = read_disbursement(body, self.settings.currency, version)
        self.access.check_pin(body.get("pin"))
        outcome = PAYOUTS.get(magic(order.msisdn), PAYOUT_SUCCEEDS)
        self._refuse_a_lost_one(outcome, PAYOUT, order.id)
        with self.book.exclusively():
            if outcome.letter == SUCCEEDED and order.amount * 100 > self._payout_float_cents(None):
                outcome = Outcome(FAILED, PAYOUT_SHORT)
            payment = self._payment(order, self._payout_steps(outcome, self.switches.now), PAYOUT)
            if not self.enter(payment, ()):
                raise refusal(200, PAYOUT_DUPLICATE)
        step = payment.step_at(self.clock.now())
        transaction = {
            "reference_id": str(payment.details["reference_id"]),
            "airtel_money_id": payment.receipt,
            "id": payment.reference,
            "status": step.status,
        }
        message = _message(payment, step, order.amount)
        success = step.status not in (FAILED, EXPIRED)
        return jsonify(envelope({"transaction": transaction}, step.reason, message=message, success=success))

    def enquire(self, reference: str, kind: str = "") -> Response:
        """Tell how a payment stands; the envelope's success is that of the enquiry, whatever became of the money."""
        self.access.admit()
        now, switches = self.clock.now(), self.switches.now
        payment = self.book.find(reference)
        hidden = payment is not None and now < payment.accepted_at + switches.hidden_seconds
        if payment is None or payment.kind not in ((kind,) if kind else (PUSH, PAYOUT)) or hidden:
            raise refusal(404, PAYOUT_NOT_FOUND if kind else PUSH_NOT_FOUND)
        if now < payment.accepted_at + EARLIEST_ENQUIRY_SECONDS:
            self.book.count("early_enquiry", reference)
        step = payment.step_at(now)
        transaction = {
            "airtel_money_id": payment.receipt if step.status in (SUCCEEDED, FAILED) else "",
            "id": payment.reference,
            "message": _message(payment, step, payment.amount_cents // 100),
            "status": step.status,
        }
        return jsonify(envelope({"transaction": transaction}, step.reason))

    def refund(self, version: str) -> Response:
        """Give a payment back, whole and once."""
        self.access.admit()
        if version == "v2":
            self.access.check_signature(PUSH_FORGED)
        receipt = read_refund(body_or_refuse())
        now = self.clock.now()
        with self.book.exclusively():
            original = self.book.find_receipt(receipt)
            if original is None or original.kind != PUSH or original.step_at(now).status != SUCCEEDED:
                raise refusal(200, PUSH_NOT_FOUND)
            amount = original.amount_cents // 100
            order = Order(f"refund-{original.reference}", amount, original.party, "refund")
            steps = (Step(now, SUCCEEDED, PUSH_SUCCEEDS.code),)
            if not self.enter(self._payment(order, steps, REFUND, original.reference), ()):
                raise refusal(200, "ESB000041")
        return jsonify(envelope({"transaction": {"airtel_money_id": receipt, "status": "SUCCESS"}}, ""))

    def callback(self, payment: Payment, step: Step, switches: Switches) -> dict[str, Any]:
        """What the application's registered address is told."""
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

    def _refuse_a_lost_one(self, outcome: Outcome, kind: str, reference: str) -> None:
        if outcome.lost and self.book.counted(kind, reference) == 1:
            raise refusal(200, "ESB000004")

    def _push_steps(self, outcome: Outcome, switches: Switches) -> tuple[Step, ...]:
        now = self.clock.now()
        start = Step(now, IN_PROGRESS, PUSH_IN_PROCESS)
        if outcome == PUSH_SUCCEEDS and switches.approve_delay_seconds >= APPROVAL_SECONDS:
            return (start, Step(now + APPROVAL_SECONDS, EXPIRED, PUSH_EXPIRED))
        steps = (start, *_settling(outcome, now + switches.approve_delay_seconds))
        return second_thoughts(steps, SUCCEEDED, (FAILED, "DP00800001009"), switches)

    def _payout_steps(self, outcome: Outcome, switches: Switches) -> tuple[Step, ...]:
        now = self.clock.now()
        steps = _settling(outcome, now)
        if switches.disbursements_pending:
            later = _settling(outcome, now + switches.approve_delay_seconds)
            steps = (Step(now, IN_PROGRESS, PAYOUT_IN_PROCESS), *later)
        return second_thoughts(steps, SUCCEEDED, (FAILED, "DP00900001005"), switches)

    def _payment(self, order: Order, steps: tuple[Step, ...], kind: str, original: str = "") -> Payment:
        now = self.clock.now()
        number = self.book.next_number()
        stamp = datetime.fromtimestamp(now, UTC).strftime("%y%m%d.%H%M")
        receipt = f"disburs-{number:010d}" if kind == PAYOUT else f"MP{stamp}.L{number:05d}"
        return Payment(
            reference=order.id,
            kind=kind,
            amount_cents=order.amount * 100,
            currency=self.settings.currency,
            party=order.msisdn,
            receipt=receipt,
            accepted_at=now,
            steps=steps,
            paid_at=steps[-1].at if steps[-1].status == SUCCEEDED else None,
            original=original,
            callback_url=self.settings.callback_url if kind == PUSH else "",
            details={"reference": order.reference, "reference_id": 133_412_377_000 + number},
        )

    # Accounts

    def user(self, msisdn: str) -> Response:
        """Who a subscriber is."""
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
        """The client's own money; v2 names the account with `?type=`."""
        self.access.admit()
        account = request.args.get("type", "COLL") if version == "v2" else "COLL"
        if account not in ("COLL", "DISB", "CASHIN", "CASHOUT"):
            raise refusal(400, "ESB000008")
        now = self.clock.now()
        collected_cents = self.book.paid_cents((PUSH,), now) - self.book.paid_cents((REFUND,), now)
        cents = collected_cents if account == "COLL" else self._payout_float_cents(now)
        data = {"balance": str(cents // 100), "currency": self.settings.currency, "account_status": "Active"}
        return jsonify(envelope(data, "DP02100000001"))

    def _payout_float_cents(self, by: float | None) -> int:
        return self.switches.now.opening_balance * 100 - self.book.paid_cents((PAYOUT,), by)


def _settling(outcome: Outcome, at: float) -> tuple[Step, ...]:
    last = Step(at + outcome.seconds, outcome.letter, outcome.code)
    return (last,) if outcome.before is None else (Step(at, *outcome.before), last)


def _message(payment: Payment, step: Step, amount: int) -> str:
    text = f"{payment.currency} {amount:,}"
    if step.status == SUCCEEDED:
        done = "You have deposited" if payment.kind == PAYOUT else "Paid"
        return f"{done} {text}. Trans ID {payment.receipt}"
    return {
        FAILED: f"The transaction of {text} has failed. Trans ID {payment.receipt}",
        AMBIGUOUS: f"The state of the transaction of {text} is not known yet",
        IN_PROGRESS: f"The transaction of {text} is in progress",
        EXPIRED: f"The transaction of {text} has expired",
    }[step.status]
