"""Passwords: how they are kept, and checked at the same cost for everybody."""

from __future__ import annotations

import functools
import secrets

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

SHORTEST = 12
LONGEST = 256

# The first choice of OWASP's Password Storage Cheat Sheet: argon2id, 19 MiB, two passes, one lane.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


def hash_password(password: str) -> str:
    """The argon2id hash under which a password is kept."""
    return _HASHER.hash(password)


def matches(password: str, password_hash: str | None) -> bool:
    """Whether this is the password. `password_hash` None, for a person who does not exist, costs the same and is False.

    Takes tens of milliseconds: never inside a database transaction.
    """
    nobody = _hash_of_nobody()
    try:
        _HASHER.verify(password_hash or nobody, password)
    except VerifyMismatchError:
        return False
    return password_hash is not None


def new_password() -> str:
    """A fresh password of 144 random bits."""
    return secrets.token_urlsafe(18)


@functools.cache
def _hash_of_nobody() -> str:
    return _HASHER.hash(new_password())
