"""Passwords and PINs: hashed, and passwords checked at the same cost whether the user exists or not."""

from __future__ import annotations

import functools
import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError

from ussd_server.threads import Turns, in_native_thread

SHORTEST = 12
LONGEST = 256
# Stands for the hash of a person who was invited and has not chosen a password yet.
NONE_YET = ""

# The first choice of OWASP's Password Storage Cheat Sheet: argon2id, 19 MiB, two passes, one thread.
_HASHER = PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)
# Each simultaneous hash takes 19 MiB. More than two would only take turns on the processors.
_SIMULTANEOUS = 2
_POOLS: dict[tuple[int, str], ThreadPoolExecutor] = {}

_Result = TypeVar("_Result")


def hash_password(password: str) -> str:
    """The argon2id hash under which a password is kept."""
    return _in_turn(_HASHER.hash, password)


def matches(password: str, password_hash: str | None) -> bool:
    """Whether this is the password. Without a hash (unknown user, no password yet) it costs the same and is False.

    Takes tens of milliseconds, more under load: never call it inside a database transaction.
    """
    try:
        _in_turn(_HASHER.verify, password_hash or _unknown_user_hash(), password)
    except VerifyMismatchError:
        return False
    return bool(password_hash)


def hash_pin(pin: str) -> str:
    """The argon2id hash under which a PIN is kept. PINs have threads of their own: many at once delay no login."""
    return _in_turn(_HASHER.hash, pin, pool="pins")


def is_pin(pin: str, pin_hash: str) -> bool:
    """Whether this is the PIN. Takes as long as `matches`: never call it inside a database transaction."""
    try:
        _in_turn(_HASHER.verify, pin_hash, pin, pool="pins")
    except VerifyMismatchError:
        return False
    return True


def new_password() -> str:
    """A fresh password of 144 random bits."""
    return secrets.token_urlsafe(18)


def _in_turn(work: Callable[..., _Result], *arguments: str, pool: str = "passwords") -> _Result:
    """Run a hash in one of a few threads, and wait for it.

    A lock around hashes in all threads would not save memory: the allocator keeps each thread's 19 MiB.
    """
    key = (os.getpid(), pool)  # threads do not survive a fork
    threads = _POOLS.get(key) or _POOLS.setdefault(key, ThreadPoolExecutor(_SIMULTANEOUS))
    with Turns.waiting():
        return threads.submit(in_native_thread, work, *arguments).result()


@functools.cache
def _unknown_user_hash() -> str:
    return hash_password(new_password())
