"""The secrets that sign our requests to a client's server."""

from __future__ import annotations

import hmac
from collections.abc import Sequence

from ussd_server.security.key_ring import Keyring, Ring


def call_secrets(keyring: Keyring, client_id: str) -> Sequence[bytes]:
    """Return the secrets that sign requests to a client's server, newest first: one for each master key."""
    materials = reversed(keyring.all_materials(Ring.SIGNING))
    return [hmac.digest(material, f"client-server\0{client_id}".encode(), "sha256") for material in materials]
