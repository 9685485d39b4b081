"""Second factors of a client's people: logins, limits of guesses, requirement and removal."""

from __future__ import annotations

from dataclasses import replace

import pyotp
import pytest

from tests.conftest import MovableClock
from tests.support.crowd import at_once, refusals
from tests.support.example_client import OPERATOR, PASSWORD, ExampleClient
from tests.support.refusals import refusal
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.models.clients import AuditEvent, UserFactor, UserRecoveryCode
from ussd_server.services.clients.messages import LogIn
from ussd_server.status import Code

STRANGER = RequestContext(Caller(CallerKind.NOBODY), address="192.0.2.1")
MISSING = (Code.INVALID_CREDENTIALS, "Second factor required")
WRONG = (Code.INVALID_CREDENTIALS, "Invalid credentials")


class Authenticator:
    """The second factor of one person, with the recovery codes."""

    def __init__(self, services: Services, clock: MovableClock, call: RequestContext) -> None:
        self._clock = clock
        self.secret = services.second_factors.prepare(call).secret
        self.recovery_codes = services.second_factors.add(self.secret, self.code(), call)

    def code(self, ahead: int = 0) -> str:
        return pyotp.TOTP(self.secret).at(int(self._clock.now().timestamp()) + ahead)

    def next_code(self) -> str:
        """The code of the next 30 seconds, which was not used."""
        self._clock.advance(30)
        return self.code()

    def wrong_code(self) -> str:
        right = {self.code(ahead) for ahead in (-30, 0, 30, 60)}
        return next(code for code in map(str, range(100_000, 100_009)) if code not in right)


@pytest.fixture
def acme(services: Services) -> ExampleClient:
    return ExampleClient(services)


def test_a_person_with_a_second_factor_needs_it_and_each_code_works_once(
    services: Services, clock: MovableClock, acme: ExampleClient
) -> None:
    logins, email = services.logins, acme.email()
    call, earlier = acme.call(), acme.log_in()
    phone = Authenticator(services, clock, call)
    assert refusal(services.auth.authenticate_token, earlier)[0] is Code.INVALID_CREDENTIALS
    assert refusal(logins.begin, LogIn(email, PASSWORD), STRANGER) == MISSING
    assert refusal(logins.begin, LogIn(email, PASSWORD, ""), STRANGER) == MISSING
    assert refusal(logins.begin, LogIn(email, "wrong password 1"), STRANGER) == WRONG
    for code in (phone.wrong_code(), phone.code(), "x", "é" * 6, "1" * 65, "\ud800", "0" * 6 + "\0"):
        assert refusal(logins.begin, LogIn(email, PASSWORD, code), STRANGER) == WRONG
    present = phone.next_code()
    assert refusal(logins.begin, LogIn(email, "wrong password 1", present), STRANGER) == WRONG
    assert logins.begin(LogIn(email, PASSWORD, f"{present[:3]} {present[3:]}"), STRANGER).access_token
    assert refusal(logins.begin, LogIn(email, PASSWORD, present), STRANGER) == WRONG
    recovery = phone.recovery_codes[2].upper().replace("-", " ")
    assert logins.begin(LogIn(email, PASSWORD, recovery), STRANGER).access_token
    assert refusal(logins.begin, LogIn(email, PASSWORD, recovery), STRANGER) == WRONG
    assert services.second_factors.show(call).recovery_codes_left == 9
    # A colleague without one signs in as before, with or without a code.
    assert logins.begin(LogIn(acme.email("admin"), PASSWORD, "123456"), STRANGER).access_token


def test_secret_and_recovery_codes_are_not_readable_in_the_database(
    services: Services, clock: MovableClock, acme: ExampleClient
) -> None:
    phone = Authenticator(services, clock, acme.call())
    assert phone.secret.encode() not in bytes(UserFactor.get().factor_sealed)
    kept = {row.code_digest for row in UserRecoveryCode.select()}
    assert len(kept) == 10
    assert not kept & {code.replace("-", "") for code in phone.recovery_codes}
    assert phone.secret not in repr(services.second_factors.prepare(acme.call("admin"), phone.secret))
    assert "492039" not in repr(LogIn("a@b", PASSWORD, "492039"))


def test_wrong_codes_from_elsewhere_lock_no_person_out(
    services: Services, clock: MovableClock, acme: ExampleClient
) -> None:
    logins, email = services.logins, acme.email()
    phone = Authenticator(services, clock, acme.call())

    def guess(network: int) -> Code:
        there = replace(STRANGER, address=f"198.51.{network}.1")
        return refusal(logins.begin, LogIn(email, PASSWORD, phone.wrong_code()), there)[0]

    assert [guess(1) for _ in range(11)][-1] is Code.RATE_LIMIT_EXCEEDED
    assert logins.begin(LogIn(email, PASSWORD, phone.next_code()), STRANGER).access_token
    # Six digits could be guessed from very many addresses: from a bound on, only recovery codes are accepted.
    seen = [guess(network) for network in range(2, 93)]
    assert set(seen[:89]) == {Code.INVALID_CREDENTIALS}
    assert seen[-1] is Code.RATE_LIMIT_EXCEEDED
    assert refusal(logins.begin, LogIn(email, PASSWORD, phone.next_code()), STRANGER)[0] is Code.RATE_LIMIT_EXCEEDED
    assert logins.begin(LogIn(email, PASSWORD, phone.recovery_codes[0]), STRANGER).access_token
    # A new password leaves the count as it is: a colleague can make links for one. A new authenticator ends it.
    services.clients.change_password(email, "another horse battery", OPERATOR)
    wanted = LogIn(email, "another horse battery", phone.next_code())
    assert refusal(logins.begin, wanted, STRANGER)[0] is Code.RATE_LIMIT_EXCEEDED
    login = logins.begin_for_console(replace(wanted, code=phone.recovery_codes[1]), STRANGER)
    fresh = Authenticator(services, clock, RequestContext(services.auth.authenticate_login(login).caller))
    assert logins.begin(replace(wanted, code=fresh.next_code()), STRANGER).access_token


@pytest.mark.both_databases
def test_one_code_that_is_sent_many_times_at_once_is_accepted_once(
    services: Services, clock: MovableClock, acme: ExampleClient
) -> None:
    phone = Authenticator(services, clock, acme.call())
    for code in (phone.next_code(), phone.recovery_codes[0]):
        wanted = LogIn(acme.email(), PASSWORD, code)
        results = at_once([lambda: services.logins.begin(wanted, STRANGER)] * 6)  # noqa: B023
        assert refusals(results) == ["Invalid credentials"] * 5


def test_a_client_that_requires_a_second_factor_admits_no_person_without_one(
    services: Services, clock: MovableClock, acme: ExampleClient
) -> None:
    factors, logins, auth = services.second_factors, services.logins, services.auth
    owner, admin = acme.at_console(), acme.at_console("admin")
    before = logins.begin(LogIn(acme.email("viewer"), PASSWORD), STRANGER)
    assert refusal(factors.require, True, owner) == (Code.INVALID_REQUEST, "Add a second factor first.")
    phone = Authenticator(services, clock, owner)
    assert refusal(factors.require, True, admin)[0] is Code.INSUFFICIENT_SCOPE
    factors.require(True, owner)
    assert refusal(auth.authenticate_token, before.access_token) == (Code.INVALID_CREDENTIALS, "Invalid JWT token")
    assert refusal(logins.refresh, before.refresh_token, STRANGER)[1] == "Invalid refresh token"
    assert refusal(logins.begin, LogIn(acme.email("viewer"), PASSWORD), STRANGER) == MISSING
    assert refusal(logins.begin, LogIn(acme.email("viewer"), PASSWORD, "123456"), STRANGER) == MISSING
    assert logins.begin(LogIn(acme.email(), PASSWORD, phone.next_code()), STRANGER).access_token
    admitted = logins.begin_for_console(LogIn(acme.email("viewer"), PASSWORD), STRANGER)
    person = auth.authenticate_login(admitted)
    assert (person.needs_factor, person.needs_fresh_code) == (True, False)
    viewers = Authenticator(services, clock, RequestContext(person.caller))
    assert not auth.authenticate_login(admitted).needs_factor
    assert logins.begin(LogIn(acme.email("viewer"), PASSWORD, viewers.next_code()), STRANGER).access_token
    assert refusal(factors.remove_own, RequestContext(person.caller))[0] is Code.INVALID_REQUEST
    factors.require(False, owner)
    factors.remove_own(RequestContext(person.caller))
    assert logins.begin(LogIn(acme.email("viewer"), PASSWORD), STRANGER).access_token


def test_an_owner_or_an_operator_removes_a_lost_second_factor_which_ends_all_logins(
    services: Services, clock: MovableClock, acme: ExampleClient
) -> None:
    factors, owner, admin = services.second_factors, acme.at_console(), acme.at_console("admin")
    other = ExampleClient(services, "other").at_console()
    Authenticator(services, clock, admin)
    Authenticator(services, clock, owner)
    admins_id = admin.caller.user_id
    assert factors.holders(owner) == {admins_id, owner.caller.user_id}
    assert factors.holders(other) == frozenset()
    for call in (admin, acme.at_console("developer")):
        assert refusal(factors.remove, owner.caller.user_id, call)[0] is Code.INSUFFICIENT_SCOPE
    assert refusal(factors.remove, admins_id, other)[0] is Code.NOT_FOUND
    assert refusal(factors.remove, "x", owner)[0] is Code.NOT_FOUND
    assert refusal(factors.remove, owner.caller.user_id, owner)[0] is Code.INVALID_REQUEST
    factors.remove(admins_id, owner)
    assert refusal(services.auth.authenticate_login, admin.caller.login_id)[0] is Code.INVALID_CREDENTIALS
    assert refusal(factors.remove, admins_id, owner)[0] is Code.INVALID_REQUEST
    assert services.logins.begin(LogIn(acme.email("admin"), PASSWORD), STRANGER).access_token
    factors.remove_by_operator(acme.email().upper(), OPERATOR)
    assert refusal(factors.remove_by_operator, "nobody@acme.example", OPERATOR)[0] is Code.NOT_FOUND
    assert UserRecoveryCode.select().count() == 0
    removed = list(AuditEvent.select().where(AuditEvent.action == "user.factor_removed").order_by(AuditEvent.id))
    assert [(event.actor, event.user_id, event.object_id) for event in removed] == [
        ("user", owner.caller.user_id, admins_id),
        ("operator", None, owner.caller.user_id),
    ]


def test_a_new_password_by_a_link_keeps_the_second_factor(
    services: Services, clock: MovableClock, acme: ExampleClient
) -> None:
    owner, developer = acme.at_console(), acme.at_console("developer")
    phone = Authenticator(services, clock, developer)
    link = services.people.new_link(str(developer.caller.user_id), owner)
    services.password_links.choose_password(link.token, "another horse battery", STRANGER)
    wanted = LogIn(acme.email("developer"), "another horse battery")
    assert refusal(services.logins.begin, wanted, STRANGER) == MISSING
    assert services.logins.begin(replace(wanted, code=phone.next_code()), STRANGER).access_token


def test_second_factors_of_people_survive_a_rotation_of_the_master_keys(
    services: Services, clock: MovableClock, acme: ExampleClient
) -> None:
    phone, keys = Authenticator(services, clock, acme.call()), services.master_keys
    keys.add(OPERATOR)
    assert refusal(keys.retire, OPERATOR)[0] is Code.INVALID_REQUEST
    assert keys.rekey(OPERATOR) == 1
    keys.retire(OPERATOR)
    assert services.logins.begin(LogIn(acme.email(), PASSWORD, phone.next_code()), STRANGER).access_token


def test_an_ended_login_changes_no_second_factor(services: Services, clock: MovableClock, acme: ExampleClient) -> None:
    # Its request was admitted before another login of the person added one and ended it.
    factors = services.second_factors
    own, stolen = acme.call(), RequestContext(services.auth.authenticate_token(acme.log_in()))
    phone = Authenticator(services, clock, own)
    before = UserFactor.get()
    clock.advance(60)
    foreign = factors.prepare(stolen).secret
    code = pyotp.TOTP(foreign).at(int(clock.now().timestamp()))
    ended = (Code.INVALID_CREDENTIALS, "Please sign in again")
    assert refusal(factors.add, foreign, code, stolen) == ended
    assert refusal(factors.replace_recovery_codes, stolen) == ended
    assert refusal(factors.remove_own, stolen) == ended
    assert bytes(UserFactor.get().factor_sealed) == bytes(before.factor_sealed)
    assert services.logins.begin(LogIn(acme.email(), PASSWORD, phone.recovery_codes[0]), STRANGER).access_token
