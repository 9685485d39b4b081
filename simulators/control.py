"""The controls beside a company's own calls: its book, its switches and its clock."""

import math
from typing import TYPE_CHECKING

from flask import Blueprint, Response, jsonify, request

from simulators.clock import moment
from simulators.switches import shown

if TYPE_CHECKING:
    from simulators.standin import StandIn


def blueprint(stand_in: "StandIn") -> Blueprint:
    """The controls of one stand-in, to be mounted under `/_control`."""
    controls = Blueprint("control", __name__)

    @controls.get("/book")
    def show_book() -> Response:
        """What the company believes happened; `?reference=` narrows it to one."""
        return jsonify(stand_in.book.shown(stand_in.clock.now(), request.args.get("reference")))

    @controls.get("/switches")
    def show_switches() -> Response:
        return jsonify(shown(stand_in.switches.now))

    @controls.put("/switches")
    def flick_switches() -> Response | tuple[Response, int]:
        """Set the switches that are named, leave the others."""
        try:
            switches = stand_in.switches.flick(request.get_json(silent=True))
        except ValueError as wrong:
            return jsonify(error=str(wrong)), 400
        stand_in.courier.wake()
        return jsonify(shown(switches))

    @controls.delete("/switches")
    def restore_switches() -> Response:
        """Put every switch back to where it stood at the start."""
        switches = stand_in.switches.restore()
        stand_in.courier.wake()
        return jsonify(shown(switches))

    @controls.get("/clock")
    def show_clock() -> Response:
        return jsonify(now=moment(stand_in.clock.now()), offset_seconds=stand_in.clock.offset_seconds)

    @controls.post("/clock")
    def move_clock() -> Response | tuple[Response, int]:
        """Move the clock forward by `advance_seconds`."""
        wish = request.get_json(silent=True)
        seconds = wish.get("advance_seconds") if isinstance(wish, dict) else None
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            return jsonify(error="advance_seconds is a number of seconds, 0 or more."), 400
        stand_in.advance(float(seconds))
        return show_clock()

    @controls.post("/reset")
    def reset() -> Response:
        """Forget everything that happened since the start."""
        stand_in.reset()
        return jsonify({})

    return controls
