"""Access tokens, the same at both providers: opaque, kept in the book, expiring on the stand-in's clock."""

import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from flask import request

from simulators.book import Book
from simulators.clock import StandInClock


@dataclass(frozen=True)
class Authorizer(ABC):
    """Issues tokens and checks the tokens of calls."""

    book: Book
    clock: StandInClock

    @abstractmethod
    def prepare(self) -> None:
        """Add the credentials that exist before the first call; does nothing when the book has them."""

    def credential(self, kind: str, name: str) -> dict[str, Any] | None:
        """Returns the details of a credential, or None when it is unknown or expired."""
        return self.book.find_credential(kind, name, self.clock.now())

    def create_token(self, details: dict[str, Any], seconds: float) -> str:
        """Returns a new token that is valid for `seconds`."""
        token = secrets.token_urlsafe(32)
        self.book.add_credential("token", token, details, self.clock.now() + seconds)
        return token

    def bearer(self) -> dict[str, Any] | None:
        """Returns the details of the call's bearer token, or None when the call has no valid one."""
        sent = request.authorization
        token = sent.token if sent is not None and sent.type == "bearer" else None
        return self.credential("token", token or "")
