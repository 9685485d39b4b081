"""An intruder with one person's password, who does whatever it allows to get further, and can be repeated by a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from contextlib import suppress

from tests.conftest import MovableClock
from tests.support.example_client import OPERATOR, PASSWORD, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.context import APPROVE, Caller, CallerKind, RequestContext, operator_context
from ussd_server.models.clients import User
from ussd_server.models.keys import ApiKey
from ussd_server.services.clients.keys.messages import HIDDEN_SECRET, SCOPES, CreateApiKey, RotateApiKey, UpdateApiKey
from ussd_server.services.clients.messages import ChangeRole, InvitePerson, LogIn, PasswordLink
from ussd_server.services.clients.password_links import digest_of
from ussd_server.services.payouts.messages import ApprovePayout, CreatePayout
from ussd_server.status import Code, ServiceError

ROLES = ("owner", "admin", "developer", "viewer")
OWNER = "role:owner"
"""What an owner may do beyond the permissions of an admin."""
_ADDRESS = "192.0.2.9"
_NOBODY = RequestContext(Caller(CallerKind.NOBODY), address=_ADDRESS)
_SCOPES: tuple[tuple[str, ...] | None, ...] = (None, (APPROVE, "payouts:read"), ("payouts:*",), ("ussd:read",))
_REFUSED = (
    Code.INSUFFICIENT_SCOPE,
    Code.INVALID_CREDENTIALS,
    Code.INVALID_REQUEST,
    Code.NOT_FOUND,
    Code.API_KEY_DISABLED,
)


class Intruder:
    """Holds the passwords that it chose or knew, and the secrets of keys that it saw."""

    def __init__(self, services: Services, clock: MovableClock, start: str, seed: int) -> None:
        self._services, self._clock, self._random = services, clock, random.Random(seed)
        self.client = ExampleClient(services, f"intruded-{start}-{seed}")
        self._ids = {role: self._id_of(self.client.email(role)) for role in ROLES}
        self._make_keys_of_others()
        self._emails = {self._ids[start]: self.client.email(start)}
        self._secrets: set[tuple[str, str]] = set()
        self._sessions: dict[str, tuple[str, str]] = {}
        self.states: set[tuple[str, ...]] = set()
        """What it held and might do after each step, with the people and keys of the client."""
        self._look()

    def step(self) -> None:
        """Try one action with a login that worked a moment ago."""
        self._clock.advance(3)
        action: Callable[[RequestContext], None] = self._random.choice((
            self._create_key, self._list_keys, self._reveal, self._rotate, self._change, self._delete, self._invite,
            self._link, self._change_role, self._set_active, self._confirm,
        ))  # fmt: skip
        if self._logins:
            with suppress(ServiceError):
                action(self._random.choice(self._logins))
        self._look()

    def pays_alone(self) -> bool:
        """Whether a payout that one of its credentials makes is approved by another of them."""
        callers = self._logins + self._keys
        makers = [context for context in callers if context.may("payouts:write")]
        if not makers:
            return False
        row = {"phone_number": "+256770000000", "amount": 500, "reference": f"r{self._random.getrandbits(64)}"}
        order = CreatePayout(f"p{self._random.getrandbits(64)}", None, (row,))
        payout_id = self._services.payouts.create(order, self._random.choice(makers)).payout.payout_id
        return any(self._is_approved(payout_id, context) for context in callers if context.may(APPROVE))

    def _look(self) -> None:
        """Note what still works of all that it holds, and what it may do with that."""
        self._logins = [context for email in self._emails.values() for context in self._logged_in(email)]
        self._keys = [context for secret in sorted(self._secrets) for context in self._called(*secret)]
        roles = {row.id: row.role for row in User.select(User.id, User.role).where(User.client_id == self.client.id)}
        self.powers = frozenset[str]().union(*(_expanded(each.caller.grants) for each in self._logins + self._keys))
        if any(roles[each.caller.user_id or ""] == "owner" for each in self._logins):
            self.powers |= {OWNER}
        held = [f"{roles[person]} {person in self._emails}" for person in roles]
        keys = ApiKey.select(ApiKey.apikey, ApiKey.scopes).where(ApiKey.client_id == self.client.id)
        seen = {apikey for apikey, _ in self._secrets}
        held += [f"{key.scopes} {key.apikey in seen}" for key in keys]
        self.states.add((*sorted(held), *sorted(self.powers)))

    def _is_approved(self, payout_id: str, context: RequestContext) -> bool:
        try:
            self._services.payouts.approve(ApprovePayout(payout_id), context)
        except ServiceError as refused:
            # The client has no money, which is looked at last.
            return refused.code is not Code.INSUFFICIENT_SCOPE
        return True

    def _make_keys_of_others(self) -> None:
        for role in ("owner", "admin", "developer"):
            self._services.api_keys.create(CreateApiKey(None), self.client.at_console(role))
        for role in ("owner", "admin"):
            self._services.api_keys.create(CreateApiKey(("payouts:*",)), self.client.at_console(role))
        self._services.api_keys.create(CreateApiKey((APPROVE,)), operator_context(self.client.id))

    def _logged_in(self, email: str) -> list[RequestContext]:
        """The contexts of the console and of the management API; none for a person who is disabled."""
        for _ in range(2):
            try:
                login_id, token = self._sessions.get(email) or self._sign_in(email)
                person = self._services.auth.authenticate_login(login_id)
                caller = self._services.auth.authenticate_token(token)
                return [RequestContext(person.caller, address=_ADDRESS), RequestContext(caller, address=_ADDRESS)]
            except ServiceError:
                self._sessions.pop(email, None)
        return []

    def _sign_in(self, email: str) -> tuple[str, str]:
        logins, known = self._services.logins, LogIn(email, PASSWORD)
        self._sessions[email] = logins.begin_for_console(known, _NOBODY), logins.begin(known, _NOBODY).access_token
        return self._sessions[email]

    def _called(self, apikey: str, secret: str) -> list[RequestContext]:
        try:
            caller = self._services.auth.authenticate_key(apikey, secret, _ADDRESS).caller
        except ServiceError:
            self._secrets.discard((apikey, secret))
            return []
        return [RequestContext(caller, address=_ADDRESS)]

    def _create_key(self, context: RequestContext) -> None:
        self._note(self._services.api_keys.create(CreateApiKey(self._random.choice(_SCOPES)), context))

    def _list_keys(self, context: RequestContext) -> None:
        for key in self._services.api_keys.list(context):
            self._note(key)

    def _reveal(self, context: RequestContext) -> None:
        key = self._some_key()
        self._secrets.add((key.apikey, self._services.key_reader.reveal(key.id, context)))

    def _rotate(self, context: RequestContext) -> None:
        grace = self._random.choice((0, 3600))
        self._note(self._services.api_keys.rotate(RotateApiKey(self._some_key().id, grace), context))

    def _change(self, context: RequestContext) -> None:
        change = UpdateApiKey(self._some_key().id, scopes=self._random.choice(_SCOPES))
        self._services.api_keys.change(change, context)

    def _delete(self, context: RequestContext) -> None:
        # A client has at most 50 keys, and the walk goes on.
        if ApiKey.select().where(ApiKey.client_id == self.client.id).count() > 8:
            self._services.api_keys.delete(self._some_key().id, context)

    def _invite(self, context: RequestContext) -> None:
        email = f"new{self._random.getrandbits(32)}@{self.client.name}.example"
        if len(self._emails) < 5:
            self._open(self._services.people.invite(InvitePerson(email, self._random.choice(ROLES)), context))

    def _confirm(self, context: RequestContext) -> None:
        self._services.people.confirm(self._random.choice(sorted(self._emails)), context)

    def _link(self, context: RequestContext) -> None:
        self._open(self._services.people.new_link(self._some_person(), context))

    def _change_role(self, context: RequestContext) -> None:
        self._services.people.change_role(ChangeRole(self._some_person(), self._random.choice(ROLES)), context)

    def _set_active(self, context: RequestContext) -> None:
        self._services.people.set_active(self._some_person(), self._random.random() < 0.7, context)

    def _open(self, link: PasswordLink) -> None:
        """Open a link that was shown, or that was mailed to an address of its own."""
        person, token = link.person.user_id, link.token
        is_own = person in self._emails or person not in self._ids.values()
        if is_own and self._random.random() < 0.5:
            User.update(link_seen_by=None).where(User.id == person).execute()
            token = self._services.password_links.link_to_mail(person, digest_of(User.get_by_id(person), None), 2**40)
        if token:
            self._emails[person] = self._services.password_links.choose_password(token, PASSWORD, _NOBODY)

    def _note(self, key: object) -> None:
        apikey, secret = key.apikey, key.apisecret  # type: ignore[attr-defined]
        if secret != HIDDEN_SECRET:
            self._secrets.add((apikey, secret))

    def _some_key(self) -> ApiKey:
        return self._random.choice(list(ApiKey.select().where(ApiKey.client_id == self.client.id).order_by(ApiKey.id)))

    def _some_person(self) -> str:
        people = User.select(User.id).where(User.client_id == self.client.id).order_by(User.id)
        return str(self._random.choice([row.id for row in people]))

    def _id_of(self, email: str) -> str:
        return self._services.clients.find_user(email, OPERATOR).user_id


def _expanded(grants: Collection[str] | None) -> set[str]:
    """Permissions with their stars written out; `None` is every scope but the approval of payouts."""
    given = SCOPES - {APPROVE, "payouts:*"} if grants is None else grants
    found = {grant for grant in given if not grant.endswith(":*")}
    for resource in (grant.partition(":")[0] for grant in given if grant.endswith(":*")):
        found |= {scope for scope in SCOPES if scope.startswith(f"{resource}:") and not scope.endswith(":*")}
    return found
