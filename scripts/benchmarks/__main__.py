"""The command line of `scripts/bench`."""

from __future__ import annotations

import signal
import sys

import click

from benchmarks.calls import calls
from benchmarks.document import document
from benchmarks.everything import everything, verdict
from benchmarks.footprint import footprint
from benchmarks.growth import growth
from benchmarks.ledger import ledger
from benchmarks.pages import pages
from benchmarks.profile import profile
from benchmarks.ussd import ussd

bench = click.Group(
    "bench",
    commands=[everything, calls, document, footprint, growth, ledger, pages, profile, ussd, verdict],
    help="Measure the service beside the best that its parts can do, and beside what a team would otherwise build.",
)

if __name__ == "__main__":
    # Told to end, it still ends whatever it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    bench()
