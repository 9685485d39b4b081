#!/usr/bin/env python3
"""Import a list of clients: the same as `ussd-server clients seed`; `--help` explains the columns."""

from __future__ import annotations

import sys

import environment

environment.enter()

from ussd_server.cli import main  # noqa: E402 - found only inside the environment

main(["clients", "seed", *sys.argv[1:]], prog_name="ussd-server")
