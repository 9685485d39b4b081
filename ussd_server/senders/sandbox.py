"""The sandbox: a sender that sends nothing; its answer is chosen by the last digits of the phone number."""

from __future__ import annotations

from ussd_server.senders.messages import DeliveryReport, SendOutcome, SendResult, SmsFailure

_SCRIPTS = {
    "+256770000091": SendResult(SendOutcome.FAILED, failure=SmsFailure.NUMBER_NOT_REACHABLE),
    "+256770000092": SendResult(SendOutcome.UNKNOWN),
}


class SandboxSender:
    """Delivers every message at once, except those to two numbers: one fails, of one the outcome stays unknown."""

    name = "sandbox"
    sends_reports = False

    def send(self, phone_number: str, text: str, timeout_seconds: float) -> SendResult:
        return _SCRIPTS.get(phone_number, SendResult(SendOutcome.DELIVERED))

    def read_report(self, body: bytes) -> DeliveryReport | None:
        return None

    def close(self) -> None:
        """It has no connections."""
