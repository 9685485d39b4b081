"""The check of `pin` nodes: they fit together, and every PIN can be typed."""

from __future__ import annotations

from collections.abc import Iterator

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.findings import Finding, error
from ussd_server.menus.document.nodes import PinNode


def find_pin_faults(document: Document) -> Iterator[Finding]:
    """Find `pin` nodes without a way out, of different lengths, or with PINs that are navigation keys."""
    pins = [node for node in document.nodes.values() if isinstance(node, PinNode)]
    for node in pins:
        if node.mode != "choose" and node.locked is None:
            yield error("pin", f"`{node.mode}` needs `locked`, where a locked number is led", node.name)
        if node.mode == "choose" and node.missing is not None:
            yield error("pin", "`missing` belongs to `ask` and `change`", node.name, ("missing",))
        if node.length != pins[0].length:
            message = f"the PIN has {node.length} digits here and {pins[0].length} in `{pins[0].name}`"
            yield error("pin", message, node.name, ("length",))
        for key in sorted(document.navigation.keys):
            if key.isdigit() and len(key) == node.length:
                yield error("pin", f"the navigation key `{key}` could not be typed as a PIN", node.name)
