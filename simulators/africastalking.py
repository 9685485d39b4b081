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
        number, text = form.get("to", ""), form.get("message", "")
        if not number or not text:
            return "Request is missing required form field", 400
        ending = number[-2:]
        if ending == "01":
            return _answer(number, 406, "UserInBlacklist", "None")
        message_id = f"ATXid_{next(self._numbers):032x}"
        self.sent.append({"id": message_id, "to": number, "message": text, "from": form.get("from", "")})
        report = _REPORTS.get(ending, {"status": "Success"})
        if self.callback_url and report is not None:
            fields = {"id": message_id, "phoneNumber": number, "networkCode": "64110", "retryCount": "0", **report}
            if ending == "05":
                self.report(fields)
            else:
                threading.Timer(0.2, self.report, [fields]).start()
        return (
            Response("<html>", content_type="text/html")
            if ending == "04"
            else _answer(number, 101, "Success", message_id)
        )

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


def _answer(number: str, code: int, status: str, message_id: str) -> Response:
    recipient = {"statusCode": code, "number": number, "status": status, "cost": "UGX 25.0000", "messageId": message_id}
    is_sent = code == 101
    summary = f"Sent to {int(is_sent)}/1 Total Cost: UGX {25 if is_sent else 0}"
    answer = jsonify({"SMSMessageData": {"Message": summary, "Recipients": [recipient]}})
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
