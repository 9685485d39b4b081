"""`peers`: processor time of our calls beside those of what a team would use instead: Flask, and FastAPI."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.agreement import agree
from benchmarks.calls import TARGETS, Target
from benchmarks.costs import measure
from benchmarks.report import Size, print_table
from benchmarks.stage import start_stage

_OF_FLASK = {each.name: each for each in TARGETS if each.application == "peer"}
_OURS = [each for each in TARGETS if each.peer]


def measure_peers(size: Size) -> dict[str, Any]:
    """Measure the three calls that the peers have in alternating slices; print the table and return its rows."""
    calls = [(ours, _OF_FLASK[ours.peer or ""], _of_fastapi(ours)) for ours in _OURS]
    with start_stage(size.clients, ("peer", "fastapi", "service")) as stage:
        agree(stage)
        costs = measure(stage, [target for each in calls for target in each], size)
    rows = []
    for targets in calls:
        service, flask, fastapi = (costs[target.name]["all"] for target in targets)
        rows.append(
            {
                "call": targets[0].name,
                "service_us": round(service),
                "Flask_us": round(flask),
                "FastAPI_us": round(fastapi),
                "Flask_to_service": round(flask / service, 1),
                "FastAPI_to_service": round(fastapi / service, 1),
            }
        )
    print_table("Microseconds of processor time of one call, all processes (lower quartile)", rows)
    return {"peers": rows}


def _of_fastapi(ours: Target) -> Target:
    """Return the FastAPI peer's target of a call: that of the Flask peer, sent to another port."""
    return replace(_OF_FLASK[ours.peer or ""], name=f"FastAPI: {ours.name}", application="fastapi")
