"""`python -m simulators.till URL --secret whsec_...`: plays a till at which payers pay with payment codes.

URL is the incoming path of a provider with the address of the service before it; `ussd-server callbacks --show-secrets`
prints both. The till first asks whether a code is taken, then reports the payment, as a provider does.
"""

import json
import random
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import httpx2
from standardwebhooks import Webhook

TIMEOUT_SECONDS = 10.0


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Payment:
    """One payment of a payer; `paid_ago` is how long ago it was, `signed_ago` when its notice was signed."""

    receipt: str
    code: str
    shillings: int
    phone_number: str
    paid_ago: timedelta = timedelta()
    signed_ago: timedelta = timedelta()


@dataclass(frozen=True)
class Reply:
    """What the service answered to a case."""

    case: str
    code: str
    shillings: int
    accepted: bool | None
    status_code: int
    status: str | None
    transaction_id: str | None


class Till:
    """Sends checks and notices to the service."""

    def __init__(self, url: str, secret: str, http: httpx2.Client, now: Callable[[], datetime] = _now) -> None:
        self._url = url.rstrip("/")
        self._secret = secret
        self._http = http
        self._now = now

    def check(self, payment: Payment) -> bool | None:
        """Ask whether a payment would be taken; None when the service does not say."""
        body = {"code": payment.code, "amount": payment.shillings, "phone_number": payment.phone_number}
        data = _data_of(self._http.post(f"{self._url}/check", json=body))
        return data.get("accepted")

    def notify(self, payment: Payment) -> httpx2.Response:
        """Report a payment, signed."""
        now = self._now()
        body = {
            "provider_transaction_id": payment.receipt,
            "code": payment.code,
            "amount": payment.shillings,
            "phone_number": payment.phone_number,
            "name": "Sarah Achieng",
            "at": (now - payment.paid_ago).isoformat(timespec="milliseconds"),
        }
        text, call_id, at = json.dumps(body), f"msg_{payment.receipt}", now - payment.signed_ago
        headers = {
            "content-type": "application/json",
            "webhook-id": call_id,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": Webhook(self._secret).sign(call_id, at, text),
        }
        return self._http.post(f"{self._url}/notify", content=text, headers=headers)

    def play(self, case: str, payment: Payment) -> Reply:
        """Check a payment and report it."""
        accepted, answer = self.check(payment), self.notify(payment)
        data = _data_of(answer)
        return Reply(
            case,
            payment.code,
            payment.shillings,
            accepted,
            answer.status_code,
            data.get("status"),
            data.get("transaction_id"),
        )


def _data_of(answer: httpx2.Response) -> Mapping[str, Any]:
    body = answer.json()
    return (body.get("data") if isinstance(body, dict) else None) or {}


def _mistyped(code: str) -> str:
    """The code with another letter at its end."""
    others = [letter for letter in string.ascii_uppercase if letter != code[-1:].upper()]
    return f"{code[:-1]}{random.choice(others)}"


CASES: dict[str, Callable[[Payment], Payment]] = {
    "right": lambda payment: payment,
    "repeated": lambda payment: payment,
    "written otherwise": lambda payment: replace(payment, code=" ".join(payment.code.lower())),
    "mistyped": lambda payment: replace(payment, code=_mistyped(payment.code)),
    "without a code": lambda payment: replace(payment, code=""),
    "another amount": lambda payment: replace(payment, shillings=payment.shillings + 1),
    "late": lambda payment: replace(payment, paid_ago=timedelta(days=2)),
    "signed too long ago": lambda payment: replace(payment, signed_ago=timedelta(minutes=6)),
}
"""What happens at a till. `repeated` reports the payment of `right` again; all others have receipts of their own."""


def play_all(till: Till, code: str, shillings: int, phone_number: str, receipts: str) -> list[Reply]:
    """Play every case; `receipts` begins the receipts."""
    replies = []
    for number, (case, change) in enumerate(CASES.items()):
        receipt = f"{receipts}-{0 if case == 'repeated' else number}"
        replies.append(till.play(case, change(Payment(receipt, code, shillings, phone_number))))
    return replies


@click.command()
@click.argument("url")
@click.option("--secret", required=True, help="The incoming secret of the provider: whsec_...")
@click.option("--code", required=True, help="A payment code that takes the amount.")
@click.option("--amount", "shillings", default=5000, show_default=True, type=click.IntRange(1), help="Shillings.")
@click.option("--phone", "phone_number", default="+256770000000", show_default=True, help="The payer.")
@click.option("--only", type=click.Choice(list(CASES)), help="Play this case alone.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def main(url: str, secret: str, code: str, shillings: int, phone_number: str, only: str | None, as_json: bool) -> None:
    """Pay at a till in every way: with the right code, mistyped, repeated, late and with another amount.

    URL is the service's address with the incoming path of a provider.
    """
    receipts = f"T{secrets.token_hex(4)}"
    with httpx2.Client(timeout=TIMEOUT_SECONDS, trust_env=False) as http:
        till = Till(url, secret, http)
        if only:
            replies = [till.play(only, CASES[only](Payment(receipts, code, shillings, phone_number)))]
        else:
            replies = play_all(till, code, shillings, phone_number, receipts)
    if as_json:
        click.echo(json.dumps({"items": [vars(reply) for reply in replies]}, indent=2))
        return
    for reply in replies:
        taken = {True: "taken", False: "not taken", None: "no answer"}[reply.accepted]
        outcome = reply.status or f"refused with {reply.status_code}"
        click.echo(
            f"{reply.case:<20} {reply.code!r}, UGX {reply.shillings}: {taken}, {outcome}  {reply.transaction_id or ''}"
        )


if __name__ == "__main__":
    main()
