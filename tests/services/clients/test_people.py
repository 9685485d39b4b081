"""A client's people: invited, changed and disabled by their owners and admins, within the rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.conftest import MovableClock
from tests.support.crowd import at_once, refusals
from tests.support.example_client import OPERATOR, PASSWORD, ExampleClient
from tests.support.refusals import refusal
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.models.clients import AuditEvent
from ussd_server.services.clients.keys.messages import CreateApiKey
from ussd_server.services.clients.messages import ChangeRole, InvitePerson, LogIn
from ussd_server.status import Code, ServiceError
from ussd_server.wire import ListPage

NOBODY = RequestContext(Caller(CallerKind.NOBODY), address="192.0.2.7")
LAST_OWNER = "A client keeps one active owner. Make another person owner first."
OWNERS_ONLY = "Only an owner may do this to an owner, or make one."


@pytest.fixture
def acme(services: Services) -> ExampleClient:
    return ExampleClient(services)


def person(acme: ExampleClient, role: str) -> str:
    email = acme.email(role)
    return acme.services.clients.find_user(email, OPERATOR).user_id


def log_in(services: Services, email: str, password: str = PASSWORD) -> str:
    return services.logins.begin_for_console(LogIn(email, password), NOBODY)


def test_an_invited_person_chooses_a_password_by_a_link_that_works_once(
    services: Services, acme: ExampleClient, clock: MovableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    team, links = services.people, services.password_links
    owner = acme.at_console()
    invited = team.invite(InvitePerson("Ann@acme.example", "developer"), owner)
    assert (invited.person.email, invited.person.role, invited.person.state) == (
        "ann@acme.example",
        "developer",
        "invited",
    )
    assert invited.token not in repr(invited)
    for guess in ("", "x" * 12, PASSWORD):
        assert refusal(lambda guess=guess: log_in(services, "ann@acme.example", guess))[0] is Code.INVALID_CREDENTIALS
    assert links.email_of(invited.token) == "ann@acme.example"
    assert refusal(lambda: links.choose_password(invited.token, "short", NOBODY))[0] is Code.INVALID_REQUEST
    assert links.choose_password(invited.token, PASSWORD, NOBODY) == "ann@acme.example"
    log_in(services, "ann@acme.example")
    for token in (invited.token, "", "forged", invited.token[:-1]):
        assert refusal(lambda token=token: links.choose_password(token, PASSWORD, NOBODY))[0] is Code.NOT_FOUND
    # A link for a lost password: the old one works until another is chosen, which ends all logins.
    with monkeypatch.context() as patched:
        moment = clock.now()
        patched.setattr(clock, "now", lambda: moment)
        first, second = (team.new_link(invited.person.user_id, owner) for _ in range(2))
    assert refusal(lambda: links.email_of(first.token))[0] is Code.NOT_FOUND
    log_in(services, "ann@acme.example")
    assert len(team.show(invited.person.user_id, owner).logins) == 2
    links.choose_password(second.token, f"{PASSWORD} again", NOBODY)
    assert team.show(invited.person.user_id, owner).logins == ()
    old = team.new_link(invited.person.user_id, owner)
    clock.advance(3 * 86_400 + 1)
    assert refusal(lambda: links.email_of(old.token))[0] is Code.NOT_FOUND
    trail = [event.action for event in AuditEvent.select().where(AuditEvent.object_id == invited.person.user_id)]
    assert trail == [
        "user.invited", "user.password_chosen", "user.link_made", "user.link_made", "user.password_chosen",
        "user.link_made",
    ]  # fmt: skip


def test_an_admin_has_no_power_over_owners_and_makes_none(services: Services, acme: ExampleClient) -> None:
    team, admin, owner_id = services.people, acme.at_console("admin"), person(acme, "owner")
    for attempt in (
        lambda: team.invite(InvitePerson("eve@acme.example", "owner"), admin),
        lambda: team.change_role(ChangeRole(person(acme, "admin"), "owner"), admin),
        lambda: team.change_role(ChangeRole(owner_id, "viewer"), admin),
        lambda: team.set_active(owner_id, False, admin),
        lambda: team.new_link(owner_id, admin),
        lambda: team.end_logins(owner_id, admin),
    ):
        assert refusal(attempt) == (Code.INSUFFICIENT_SCOPE, OWNERS_ONLY)
    for role in ("developer", "viewer"):
        caller = acme.at_console(role)
        assert team.show(owner_id, caller).role == "owner"
        assert refusal(lambda c=caller: team.end_logins(person(acme, "admin"), c))[0] is Code.INSUFFICIENT_SCOPE
    assert {one.role for one in team.list(ListPage(), admin).items} == {"owner", "admin", "developer", "viewer"}
    changed = team.change_role(ChangeRole(person(acme, "viewer"), "admin"), admin)
    assert changed.role == "admin"


@pytest.mark.both_databases
def test_a_client_keeps_one_active_owner(services: Services, acme: ExampleClient) -> None:
    team, owner, owner_id, admin_id = (
        services.people,
        acme.at_console(),
        person(acme, "owner"),
        person(acme, "admin"),
    )
    assert refusal(lambda: team.change_role(ChangeRole(owner_id, "admin"), owner)) == (
        Code.INVALID_REQUEST,
        LAST_OWNER,
    )
    assert refusal(lambda: team.set_active(owner_id, False, owner))[1] == "You cannot disable yourself."
    team.invite(InvitePerson("late@acme.example", "owner"), owner)
    assert refusal(lambda: team.change_role(ChangeRole(owner_id, "admin"), owner))[1] == LAST_OWNER
    assert team.change_role(ChangeRole(admin_id, "owner"), owner).role == "owner"
    # Two owners who step down at once: one of them stays.
    second = acme.at_console("admin")
    outcomes = at_once(
        [
            lambda: team.change_role(ChangeRole(owner_id, "viewer"), owner),
            lambda: team.change_role(ChangeRole(admin_id, "viewer"), second),
        ],
        threads=2,
    )
    assert refusals(outcomes) == [LAST_OWNER]


def test_a_disabled_person_is_out_at_once_and_comes_back(services: Services, acme: ExampleClient) -> None:
    team, owner, viewer_id = services.people, acme.at_console(), person(acme, "viewer")
    login = log_in(services, acme.email("viewer"))
    assert [seen.login_id for seen in team.show(viewer_id, owner).logins] == [login]
    assert team.end_logins(viewer_id, owner).state == "active"
    with pytest.raises(ServiceError):
        services.auth.authenticate_login(login)
    login, link = log_in(services, acme.email("viewer")), team.new_link(viewer_id, owner)
    assert team.set_active(viewer_id, False, owner).state == "disabled"
    with pytest.raises(ServiceError):
        services.auth.authenticate_login(login)
    assert refusal(lambda: log_in(services, acme.email("viewer")))[0] is Code.INVALID_CREDENTIALS
    assert refusal(lambda: services.password_links.email_of(link.token))[0] is Code.NOT_FOUND
    assert refusal(lambda: team.new_link(viewer_id, owner))[0] is Code.INVALID_REQUEST
    team.set_active(viewer_id, True, owner)
    log_in(services, acme.email("viewer"))


@pytest.mark.parametrize("change", ["disabled by an owner", "disabled by the operator", "demoted"])
def test_the_links_that_a_person_was_shown_end_with_their_power(
    services: Services, acme: ExampleClient, change: str
) -> None:
    team, owner, admin_id = services.people, acme.at_console(), person(acme, "admin")
    shown = team.new_link(person(acme, "developer"), acme.at_console("admin"))
    not_shown = team.new_link(person(acme, "viewer"), owner)
    assert services.password_links.email_of(shown.token or "") == acme.email("developer")
    if change == "demoted":
        team.change_role(ChangeRole(admin_id, "viewer"), owner)
    elif change == "disabled by an owner":
        team.set_active(admin_id, False, owner)
    else:
        services.clients.set_user_active(acme.email("admin"), False, OPERATOR)
    assert refusal(lambda: services.password_links.email_of(shown.token or ""))[0] is Code.NOT_FOUND
    assert services.password_links.email_of(not_shown.token or "") == acme.email("viewer")


@pytest.mark.parametrize(
    "change",
    [
        lambda services, user_id, owner: services.people.change_role(ChangeRole(user_id, "developer"), owner),
        lambda services, user_id, owner: services.clients.set_user_active(
            services.people.show(user_id, owner).email, True, OPERATOR
        ),
        lambda services, user_id, owner: services.clients.change_password(
            services.people.show(user_id, owner).email, PASSWORD, OPERATOR
        ),
    ],
    ids=["role", "enabled", "password"],
)
def test_each_change_of_a_person_ends_their_link_even_within_its_millisecond(
    services: Services,
    acme: ExampleClient,
    clock: MovableClock,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Services, str, RequestContext], object],
) -> None:
    viewer_id, owner, moment = person(acme, "viewer"), acme.at_console(), clock.now()
    monkeypatch.setattr(clock, "now", lambda: moment)
    link = services.people.new_link(viewer_id, owner)
    change(services, viewer_id, owner)
    assert refusal(lambda: services.password_links.email_of(link.token or ""))[0] is Code.NOT_FOUND


@pytest.mark.parametrize("is_disabled", [True, False])
def test_a_call_that_began_before_its_person_lost_their_role_changes_nothing(
    services: Services, acme: ExampleClient, is_disabled: bool
) -> None:
    team, stale, owner, admin_id = services.people, acme.at_console("admin"), acme.at_console(), person(acme, "admin")
    if is_disabled:
        team.set_active(admin_id, False, owner)
    else:
        team.change_role(ChangeRole(admin_id, "viewer"), owner)
    for attempt in (
        lambda: team.invite(InvitePerson("eve@acme.example", "admin"), stale),
        lambda: team.change_role(ChangeRole(admin_id, "admin"), stale),
        lambda: team.set_active(admin_id, True, stale),
        lambda: services.api_keys.create(CreateApiKey(None), stale),
        lambda: services.api_keys.create(CreateApiKey(("ussd:read",)), stale),
    ):
        assert refusal(attempt)[0] is Code.INSUFFICIENT_SCOPE


def test_another_clients_person_is_missing_and_a_taken_address_is_refused(
    services: Services, acme: ExampleClient
) -> None:
    team, owner, other = services.people, acme.at_console(), ExampleClient(services, "other")
    theirs = person(other, "viewer")
    for user_id in (theirs, "019e0000-0000-7000-8000-000000000000", "x"):
        for attempt in (
            lambda one: team.show(one, owner),
            lambda one: team.end_logins(one, owner),
            lambda one: team.new_link(one, owner),
            lambda one: team.set_active(one, False, owner),
            lambda one: team.change_role(ChangeRole(one, "viewer"), owner),
        ):
            assert refusal(lambda a=attempt, u=user_id: a(u)) == (Code.NOT_FOUND, "Person not found")
    for email, role in ((other.email("viewer"), "viewer"), ("x", "viewer"), ("b@acme.example", "root")):
        assert refusal(lambda e=email, r=role: team.invite(InvitePerson(e, r), owner))[0] is Code.INVALID_REQUEST
