"""`python -m simulators.africastalking --port 9003`: the SMS API of Africa's Talking on the loopback interface.

The last two digits of a number choose its answer: 01 blacklisted, 02 accepted and reported as failed, 03 accepted and
never reported, 04 accepted with a broken answer, 05 reported before the answer. All others are delivered.
"""

import itertools
import threading
from dataclasses import dataclass, field
from typing import Any

import click
import httpx2
from flask import Flask, Response, jsonify, request

from simulators.server import serving, show_until_stopped

_SENT = 101
_REPORTS = {"02": {"status": "Failed", "failureReason": "UserDoesNotExist"}, "03": None}


@dataclass
class AfricasTalkingSms:
    """The messages it accepted, oldest first; `callback_url` is where it reports, empty for nowhere."""

    username: str = "sandbox"
    api_key: str = "sms-key"
    callback_url: str = ""
    sent: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._numbers = itertools.count(1)

    def accept(self) -> Response | tuple[str, int]:
        """Answer one call, and report the delivery of its message a moment later."""
        form = request.form
        if request.headers.get("apiKey") != self.api_key or form.get("username") != self.username:
            return "The supplied authentication is invalid", 401
        numbers, text = form.get("to", "").split(","), form.get("message", "")
        if not all(numbers) or not text:
            return "Request is missing required form field", 400
        recipients = [self._accept_one(number.strip(), text, form.get("from", "")) for number in numbers]
        return Response("<html>", content_type="text/html") if numbers[-1][-2:] == "04" else _answer(recipients)

    def _accept_one(self, number: str, text: str, sender: str) -> dict[str, Any]:
        """Accept the message to one number, unless it is blacklisted, and report its delivery; what the answer says."""
        ending = number[-2:]
        if ending == "01":
            return _recipient(number, 406, "UserInBlacklist", "None")
        message_id = f"ATXid_{next(self._numbers):032x}"
        self.sent.append({"id": message_id, "to": number, "message": text, "from": sender})
        report = _REPORTS.get(ending, {"status": "Success"})
        if self.callback_url and report is not None:
            fields = {"id": message_id, "phoneNumber": number, "networkCode": "64110", "retryCount": "0", **report}
            if ending == "05":
                self.report(fields)
            else:
                threading.Timer(0.2, self.report, [fields]).start()
        return _recipient(number, _SENT, "Success", message_id)

    def report(self, fields: dict[str, str]) -> None:
        """Post one delivery report."""
        with httpx2.Client(timeout=5.0, trust_env=False) as client:
            client.post(self.callback_url, data=fields)

    def application(self) -> Flask:
        """Return its application: the API, and `/_control/messages` with what it accepted."""
        app = Flask("simulators.africastalking", static_folder=None)
        app.add_url_rule("/version1/messaging", "accept", self.accept, methods=["POST"])
        app.add_url_rule("/_control/messages", "messages", lambda: jsonify(self.sent))
        return app


def _recipient(number: str, code: int, status: str, message_id: str) -> dict[str, Any]:
    return {"statusCode": code, "number": number, "status": status, "cost": "UGX 25.0000", "messageId": message_id}


def _answer(recipients: list[dict[str, Any]]) -> Response:
    sent = sum(each["statusCode"] == _SENT for each in recipients)
    summary = f"Sent to {sent}/{len(recipients)} Total Cost: UGX {25 * sent}"
    answer = jsonify({"SMSMessageData": {"Message": summary, "Recipients": recipients}})
    answer.status_code = 201
    return answer


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=9003, show_default=True, help="0 takes any free port.")
@click.option("--username", default="sandbox", show_default=True)
@click.option("--api-key", default="sms-key", show_default=True)
@click.option("--callback-url", default="", help="The URL of delivery reports; without it none are sent.")
def main(port: int, **access: Any) -> None:
    """Serve a stand-in for the SMS API of Africa's Talking; what it accepted is at /_control/messages."""
    show_until_stopped("africastalking", serving(AfricasTalkingSms(**access).application(), port))


if __name__ == "__main__":
    main()
