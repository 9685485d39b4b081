"""The request context: caller, permissions, request id and address."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, field
from enum import StrEnum

from ussd_server.status import Code, ServiceError

APPROVE = "payouts:approve"
SEND = "transactions:send"
NOT_PERMITTED = "Insufficient permissions"
"""The refusal of people and of the management API, which know roles instead of scopes."""

# Not one of our secrets or a token, which a program sent in the wrong header.
_REQUEST_ID = re.compile(r"(?!eyJ|WyI|\.eJ|.*(?:ussdsk_|whsec_))[A-Za-z0-9._-]{1,64}")


class CallerKind(StrEnum):
    KEY = "key"
    TOKEN = "token"  # noqa: S105 - the name of a kind
    GATEWAY = "gateway"
    OPERATOR = "operator"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as authenticated.

    `grants` are `resource:action` pairs, `*` standing for every action of a resource; None means everything the client
    may do, for a key without `payouts:approve`. `key_id` with the key's name, `user_id` and `login_id` are set for the
    kinds of caller that have them; `people` are those behind the secret of a key; `operator` is the e-mail address of
    an operator who signed in.
    """

    kind: CallerKind
    client_id: str | None = None
    grants: frozenset[str] | None = frozenset()
    key_id: str | None = None
    key_name: str | None = None
    user_id: str | None = None
    login_id: str | None = None
    channel_id: str | None = None
    operator: str | None = None
    people: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SignedInPerson:
    """A person who uses the console: the caller with its permissions, and what the pages show of the person.

    `role` is a role of a client's people, or `operator`. `needs_factor`: the client requires a second factor, which the
    person has to add before anything else. `needs_fresh_code`: the person has one, and gave no code for ten minutes.
    `language` is the one that the person chose.
    """

    caller: Caller
    email: str
    role: str
    client_name: str
    needs_factor: bool = False
    needs_fresh_code: bool = False
    language: str | None = None

    @property
    def is_operator(self) -> bool:
        """Whether this is an operator, who belongs to no client."""
        return self.caller.kind is CallerKind.OPERATOR


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One call: its caller, its request id and the address it came from."""

    caller: Caller
    request_id: str = field(default_factory=lambda: new_request_id())
    address: str = ""

    @property
    def client_id(self) -> str:
        """The client on whose behalf the call acts; an authenticated caller has one."""
        if self.caller.client_id is None:
            raise AssertionError("this method needs a caller that acts for a client")
        return self.caller.client_id

    def may(self, grant: str) -> bool:
        """Whether the caller holds `resource:action`, by itself or by a star."""
        grants = self.caller.grants
        if grants is None:
            return grant != APPROVE or self.caller.kind is not CallerKind.KEY
        return grant in grants or f"{grant.partition(':')[0]}:*" in grants

    def require(self, grant: str, refusal: str | None = None) -> None:
        """Refuse with INSUFFICIENT_SCOPE (403) unless the caller holds `grant`; the default `refusal` names it."""
        if not self.may(grant):
            named = f"The API key does not have the scope {grant}, which this request needs"
            raise ServiceError(Code.INSUFFICIENT_SCOPE, refusal or named)

    def require_operator(self) -> None:
        """Refuse every caller but the operator with INSUFFICIENT_SCOPE (403)."""
        if self.caller.kind is not CallerKind.OPERATOR:
            raise ServiceError(Code.INSUFFICIENT_SCOPE, "Only the operator may do this")


def operator_context(client_id: str | None = None) -> RequestContext:
    """The context of an operator at the server: everything is allowed, for `client_id` where a client is needed."""
    return RequestContext(Caller(CallerKind.OPERATOR, client_id=client_id, grants=None))


def automatic_context() -> RequestContext:
    """The context of work that no caller requested."""
    return RequestContext(Caller(CallerKind.NOBODY))


def new_request_id() -> str:
    """A fresh request id: 32 hexadecimal digits. It is no secret, and the system's random numbers take longer."""
    return f"{random.getrandbits(128):032x}"


def request_id_from(request_id: str | None) -> str:
    """The caller's own request id when it is 1 to 64 of `A-Za-z0-9._-` and no secret, a fresh one otherwise."""
    return request_id if request_id and _REQUEST_ID.fullmatch(request_id) else new_request_id()
