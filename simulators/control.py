"""The controls beside a provider's own routes: its book, its switches and its clock."""

import math
from dataclasses import asdict

from flask import Blueprint, Response, jsonify, request

from simulators.clock import iso_time
from simulators.standin import StandIn
from simulators.statements import StatementForm


def blueprint(stand_in: StandIn) -> Blueprint:
    """Returns the controls of one stand-in, to be mounted under `/_control`."""
    controls = Blueprint("control", __name__)

    @controls.get("/book")
    def show_book() -> Response:
        """The payments, requests and callbacks; `?reference=` selects one payment."""
        return jsonify(stand_in.book.as_json(stand_in.clock.now(), request.args.get("reference")))

    @controls.get("/statement")
    def show_statement() -> Response | tuple[Response, int]:
        """The statement of the book, or of `?day=`; `file=`, `encoding=`, `separator=` and `dates=` choose its form."""
        try:
            form = StatementForm.read(request.args)
        except ValueError as wrong:
            return jsonify(error=str(wrong)), 400
        return Response(stand_in.statement(form, request.args.get("day", "")), content_type="application/octet-stream")

    @controls.get("/switches")
    def show_switches() -> Response:
        return jsonify(asdict(stand_in.switches.now))

    @controls.put("/switches")
    def set_switches() -> Response | tuple[Response, int]:
        """Set the named switches; the others stay as they are."""
        try:
            switches = stand_in.switches.change(request.get_json(silent=True))
        except ValueError as wrong:
            return jsonify(error=str(wrong)), 400
        stand_in.callbacks.wake()
        return jsonify(asdict(switches))

    @controls.delete("/switches")
    def restore_switches() -> Response:
        """Restore the switches of the start."""
        switches = stand_in.switches.restore()
        stand_in.callbacks.wake()
        return jsonify(asdict(switches))

    @controls.get("/clock")
    def show_clock() -> Response:
        return jsonify(now=iso_time(stand_in.clock.now()), offset_seconds=stand_in.clock.offset_seconds)

    @controls.post("/clock")
    def move_clock() -> Response | tuple[Response, int]:
        """Move the clock forward by `advance_seconds`."""
        body = request.get_json(silent=True)
        seconds = body.get("advance_seconds") if isinstance(body, dict) else None
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            return jsonify(error="advance_seconds is a number of seconds, 0 or more."), 400
        stand_in.advance(float(seconds))
        return show_clock()

    @controls.post("/reset")
    def reset() -> Response:
        """Delete everything that happened since the start."""
        stand_in.reset()
        return jsonify({})

    return controls
