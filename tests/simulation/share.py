"""A process of `scripts/simulate`: installs the virtual time, and only then imports the program.

Its argument, as JSON: the first seed, the step between seeds, how many, the days, the bug or null, whether to shrink.
"""

from __future__ import annotations

import json
import sys

from tests.simulation.worlds import virtual_time


def main() -> None:
    """Run the seeds that the command line names."""
    virtual_time.install()
    from tests.simulation.worlds.seeds import run_seeds
    from tests.support.made_once import quote_each_name_once

    quote_each_name_once()
    run_seeds(*json.loads(sys.argv[1]))


if __name__ == "__main__":
    main()
