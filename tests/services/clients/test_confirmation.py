"""A person counts as the people who gave them their role, until another person has confirmed them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.example_client import OPERATOR, PASSWORD, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.models.clients import AuditEvent, User
from ussd_server.services.clients.auth import PERMISSIONS
from ussd_server.services.clients.keys.messages import CreateApiKey
from ussd_server.services.clients.messages import ChangeRole, CreateUser, InvitePerson
from ussd_server.services.clients.password_links import digest_of
from ussd_server.services.payouts.messages import ApprovePayout, CreatePayout
from ussd_server.services.same_person import ROLES_OF
from ussd_server.status import Code, ServiceError

_NOBODY = RequestContext(Caller(CallerKind.NOBODY), address="192.0.2.1")
_ROW = {"phone_number": "+256770000000", "amount": 500, "reference": "a"}


class Team:
    """A client whose owner invites people, and whose people try to approve each other's payouts."""

    def __init__(self, services: Services) -> None:
        self.services, self.client = services, ExampleClient(services)
        self.ann, self._count = self.client.at_console("owner"), 0

    def as_person(self, user_id: str, role: str) -> RequestContext:
        return replace(self.ann, caller=replace(self.client.at_console(role).caller, user_id=user_id))

    def colleague(self, name: str, role: str = "admin") -> RequestContext:
        """A person whom the operator makes."""
        made = CreateUser(self.client.id, f"{name}@acme.example", role, PASSWORD)
        return self.as_person(self.services.clients.create_user(made, OPERATOR).user_id, role)

    def invited(self, name: str, role: str = "admin", by: RequestContext | None = None) -> RequestContext:
        """A person whom a colleague invites, and who chooses the password by the link in a mail."""
        link = self.services.people.invite(InvitePerson(f"{name}@acme.example", role), by or self.ann)
        User.update(link_seen_by=None).where(User.id == link.person.user_id).execute()
        self.choose_by_mail(link.person.user_id)
        return self.as_person(link.person.user_id, role)

    def choose_by_mail(self, user_id: str) -> None:
        row = User.get_by_id(user_id)
        token = self.services.password_links.link_to_mail(row.id, digest_of(row, None), 2**40)
        assert token is not None
        self.services.password_links.choose_password(token, PASSWORD, _NOBODY)

    def approves(self, approver: RequestContext, maker: RequestContext) -> bool:
        """Whether one may approve what the other makes. The client has no money, which is looked at last."""
        self._count += 1
        made = self.services.payouts.create(CreatePayout(f"P{self._count}", None, (_ROW,)), maker).payout
        try:
            self.services.payouts.approve(ApprovePayout(made.payout_id), approver)
        except ServiceError as refusal:
            return refusal.code is not Code.INSUFFICIENT_SCOPE
        return True


@pytest.fixture
def team(services: Services) -> Team:
    return Team(services)


def id_of(context: RequestContext) -> str:
    assert context.caller.user_id is not None
    return context.caller.user_id


def refusal_of(team: Team, person: RequestContext, confirmer: RequestContext) -> Code | None:
    try:
        team.services.people.confirm(id_of(person), confirmer)
    except ServiceError as refusal:
        return refusal.code
    return None


def test_the_roles_that_make_and_approve_payouts_are_those_with_the_permissions() -> None:
    for grant, roles in ROLES_OF.items():
        assert set(roles) == {role for role, granted in PERMISSIONS.items() if grant in granted}


@pytest.mark.parametrize("role", ["admin", "owner"])
def test_a_second_mailbox_of_the_inviter_is_no_second_person(team: Team, role: str) -> None:
    second = team.invited("second", role)
    assert not team.approves(second, team.ann)
    assert not team.approves(team.ann, second)
    assert team.approves(team.colleague("bob"), second)


def test_a_maker_whom_the_approver_invited_is_no_second_person(team: Team) -> None:
    assert not team.approves(team.ann, team.invited("dev", "developer"))


def test_another_person_who_may_approve_confirms_and_no_one_else(team: Team) -> None:
    bob, second, third = team.colleague("bob"), team.invited("second"), team.invited("third")
    fourth = team.invited("fourth", by=second)
    for confirmer in (team.ann, second, third, fourth, team.colleague("dev", "developer")):
        assert refusal_of(team, second, confirmer) is Code.INSUFFICIENT_SCOPE
    assert refusal_of(team, second, bob) is None
    assert team.approves(second, team.ann)
    assert not team.approves(third, team.ann)
    assert not team.approves(fourth, second)
    assert [row.user_id for row in AuditEvent.select().where(AuditEvent.action == "user.confirmed")] == [id_of(bob)]
    # Who counts as a person of their own confirms others.
    assert refusal_of(team, third, second) is None
    assert team.approves(third, team.ann)


def test_the_operator_confirms(team: Team) -> None:
    second = team.invited("second")
    team.services.clients.confirm_user("second@acme.example", OPERATOR)
    assert team.approves(second, team.ann)


def test_a_link_by_mail_makes_no_second_person(team: Team) -> None:
    shown = team.services.people.invite(InvitePerson("second@acme.example", "admin", shows_link=True), team.ann)
    assert shown.token is not None
    team.services.password_links.choose_password(shown.token, PASSWORD, _NOBODY)
    second = team.as_person(shown.person.user_id, "admin")
    team.choose_by_mail(id_of(second))
    assert not team.approves(second, team.ann)
    team.services.clients.change_password("second@acme.example", PASSWORD, OPERATOR)
    assert not team.approves(second, team.ann), "a password says nothing about who invited the person"
    assert refusal_of(team, second, team.colleague("bob")) is None
    assert team.approves(second, team.ann)


def test_who_gives_a_right_later_is_no_second_person(team: Team) -> None:
    bob, viewer = team.colleague("bob"), team.invited("second", "viewer")
    assert refusal_of(team, viewer, bob) is None
    team.services.people.change_role(ChangeRole(id_of(viewer), "developer"), team.ann)
    assert not team.approves(team.ann, team.as_person(id_of(viewer), "developer"))
    assert refusal_of(team, viewer, bob) is None
    assert team.approves(team.ann, team.as_person(id_of(viewer), "developer"))
    team.services.people.change_role(ChangeRole(id_of(viewer), "admin"), team.ann)
    assert not team.approves(team.as_person(id_of(viewer), "admin"), team.ann)


def test_people_whom_the_operator_made_stay_as_they_are(team: Team) -> None:
    bob = team.colleague("bob")
    assert team.approves(bob, team.ann)
    assert not team.services.people.show(id_of(bob), team.ann).needs_confirmation
    assert team.services.people.count_unconfirmed(bob) == 0
    shown = team.services.people.show(id_of(team.invited("second")), bob)
    assert [team.services.people.count_unconfirmed(each) for each in (bob, team.ann)] == [1, 0]
    assert (shown.needs_confirmation, shown.may_confirm) == (True, True)
    assert not team.services.people.show(shown.user_id, team.ann).may_confirm


@pytest.mark.parametrize("reads", ["list", "detail", "reveal"])
def test_who_reads_the_secret_of_a_colleague_stands_behind_the_key(team: Team, reads: str) -> None:
    bob = team.colleague("bob")
    request = CreateApiKey(("payouts:approve", "payouts:read"))
    key = team.services.api_keys.create(request, bob)
    if reads == "list":
        team.services.api_keys.list(team.ann)
    elif reads == "detail":
        team.services.key_reader.get(key.id, team.ann)
    else:
        team.services.key_reader.reveal(key.id, team.ann)
    caller = team.services.auth.authenticate_key(key.apikey, key.apisecret, "192.0.2.1").caller
    assert not team.approves(RequestContext(caller), team.ann)
