"""How schemathesis signs in: it calls oftener than one key may, so every call gets another key of the same client."""

from __future__ import annotations

import itertools
import json
import os
from typing import Any

import schemathesis

_SIGNATURES = json.loads(os.environ["TIRELESS_SIGNATURES"])
_KEYS = itertools.cycle(_SIGNATURES["keys"])


@schemathesis.auth(refresh_interval=None)
class Signatures:
    """A program's key, or a person's token, as the path wants it."""

    def get(self, case: Any, _context: Any) -> dict[str, str]:
        """The headers for one call."""
        signature: dict[str, str] = _SIGNATURES["token"] if case.path.startswith("/api/clients/") else next(_KEYS)
        return signature

    def set(self, case: Any, signature: dict[str, str], _context: Any) -> None:
        """Sign one call."""
        case.headers.update(signature)
