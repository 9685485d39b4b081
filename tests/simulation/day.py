"""A process of `scripts/simulate --day`: installs the virtual time, and only then imports the program.

Its arguments: the seed and the number of payments. It prints how many have begun, line by line, and then the figures.
"""

from __future__ import annotations

import json
import sys

from tests.simulation.worlds import virtual_time

_SHOWN_EVERY = 100


def main() -> None:
    """Run the day that the command line names."""
    virtual_time.install()
    from tests.simulation.worlds.day import run_day

    def show(begun: int) -> None:
        if begun % _SHOWN_EVERY == 0:
            print(begun, flush=True)

    print(json.dumps(run_day(int(sys.argv[1]), int(sys.argv[2]), show)), flush=True)


if __name__ == "__main__":
    main()
