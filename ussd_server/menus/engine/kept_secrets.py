"""Secret entries that are compared one step later: between two steps only their digests are kept."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Digest = Callable[[str], str]


@dataclass(frozen=True, slots=True, eq=False)
class KeptSecret:
    """A secret entry of an earlier step, as its digest. It can be compared, and nothing else."""

    digest: str = field(repr=False)
    digest_of: Digest = field(repr=False)

    def __eq__(self, other: object) -> bool:
        digest = other.digest if isinstance(other, KeptSecret) else self.digest_of(str(other))
        return hmac.compare_digest(self.digest, digest)

    def __hash__(self) -> int:
        return hash(self.digest)


def digests_of(kept: Mapping[str, Any], digest_of: Digest) -> dict[str, str]:
    """Return what is stored of secret entries."""
    return {
        name: value.digest if isinstance(value, KeptSecret) else digest_of(str(value)) for name, value in kept.items()
    }


def kept_secrets(stored: Mapping[str, str], digest_of: Digest) -> dict[str, KeptSecret]:
    """Read what `digests_of` returned."""
    return {name: KeptSecret(digest, digest_of) for name, digest in stored.items()}
