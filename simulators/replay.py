"""`python -m simulators.replay REPORT --port 9003`: answers as a provider did, by a report of `providers try`.

Each payment that a client sends takes the replies of the next payment of the report: those of its request, then those
of its status, one after the other, and the last one again and again.
"""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import click
from flask import Flask, Response, request

from simulators.server import serving, show_until_stopped

_PLACES = {"{reference}": r"(?P<reference>[0-9a-fA-F-]{32,36})", "{number}": r"(?P<number>[0-9]{9})"}


class Replay:
    """The replies of a report, and how many of each a client has taken."""

    def __init__(self, report: dict[str, Any]) -> None:
        self._calls = [call for call in report["calls"] if call["status"] is not None]
        self._taken: defaultdict[tuple[str, str, str], int] = defaultdict(int)
        self._steps: dict[str, str] = {}
        self._numbers: dict[str, str] = {}

    def application(self) -> Flask:
        """Returns the Flask application with every path of the report."""
        app = Flask("simulators.replay", static_folder=None)
        app.add_url_rule("/", "any", self.answer, defaults={"path": ""}, methods=["GET", "POST"])
        app.add_url_rule("/<path:path>", "any", self.answer, methods=["GET", "POST"])
        return app

    def answer(self, path: str) -> Response:
        """Return the next reply to this request, 404 for a request that the report does not have."""
        written = f"/{path}" + (f"?{request.query_string.decode()}" if request.query_string else "")
        fitting = [call for call in self._calls if call["method"] == request.method and _fits(call["path"], written)]
        if not fitting:
            return Response(status=404)
        values = _values(fitting[0]["path"], written)
        reference = values.get("reference") or _sent_reference()
        step = self._step_of(reference, fitting)
        replies = [call for call in fitting if call["step"] == step] or fitting
        if number := values.get("number") or _sent_number(replies[0]["request"]):
            self._numbers[reference] = number
        key = (step, request.method, replies[0]["path"])
        call = replies[min(self._taken[key], len(replies) - 1)]
        self._taken[key] += 1
        body = json.dumps(call["reply"]) if "reply" in call else call["text"]
        body = body.replace("{reference}", reference).replace("{number}", self._numbers.get(reference, "772000000"))
        return Response(body, call["status"], content_type="application/json" if "reply" in call else "text/html")

    def _step_of(self, reference: str, fitting: list[dict[str, Any]]) -> str:
        """The step whose replies a payment gets; a call without a payment goes through those of all steps."""
        if not reference:
            return ""
        if reference not in self._steps:
            taken = set(self._steps.values())
            steps = [call["step"] for call in fitting if call["step"] not in taken]
            self._steps[reference] = steps[0] if steps else fitting[-1]["step"]
        return self._steps[reference]


def _pattern(template: str) -> str:
    """The pattern of a path in which `{reference}` and `{number}` stand, each once."""
    pattern = re.escape(template)
    for place, form in _PLACES.items():
        pattern = pattern.replace(re.escape(place), form)
    return pattern


def _fits(template: str, path: str) -> bool:
    return re.fullmatch(_pattern(template), path) is not None


def _values(template: str, path: str) -> dict[str, str]:
    found = re.fullmatch(_pattern(template), path)
    return found.groupdict() if found else {}


def _sent_reference() -> str:
    """Our name for the payment that a request sends; empty for another request."""
    body = request.get_json(silent=True)
    transaction = body.get("transaction") if isinstance(body, dict) else None
    sent = transaction.get("id") if isinstance(transaction, dict) else None
    return request.headers.get("X-Reference-Id") or str(sent or "")


def _sent_number(template: object) -> str:
    """The number in the body of a request, where the recorded body has one."""
    found = re.search(r'"(?:256|0)?([0-9]{9})"', request.get_data(as_text=True))
    return found[1] if found and "{number}" in json.dumps(template) else ""


@click.command()
@click.argument("report", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--port", type=click.IntRange(0, 65535), default=9003, show_default=True, help="0 takes any free port.")
def main(report: Path, port: int) -> None:
    """Answer as the provider of REPORT did."""
    replay = Replay(json.loads(report.read_text(encoding="utf-8")))
    show_until_stopped("Replay", serving(replay.application(), port))


if __name__ == "__main__":
    main()
