"""The gateways that this version knows, each in a folder of its name.

To add one, add a folder: `gateway.toml` for a gateway that a table describes (`table.py`), with its `cases.toml`, or
else `__init__.py` with its adapter as `GATEWAY`. Commands, console and API document read the names of the folders.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from ussd_server.gateways.messages import Gateway
from ussd_server.gateways.table import read_gateway


def find_gateways(folder: Path) -> dict[str, Gateway]:
    """Return the gateways in a folder, by each name that a channel's path may give them.

    Ends the program with a sentence that names the folder of a table that describes no gateway.
    """
    gateways = dict[str, Gateway]()
    for each in sorted(folder.iterdir()):
        if (each / "gateway.toml").exists():
            try:
                gateways[each.name] = read_gateway(each)
            except ValueError as why:
                raise SystemExit(str(why)) from None
        elif (each / "__init__.py").exists():
            gateway: Gateway = import_module(f"{__name__}.{each.name}").GATEWAY
            gateways |= dict.fromkeys((gateway.name, *gateway.other_names), gateway)
    return gateways


ADAPTERS = find_gateways(Path(__file__).parent)
