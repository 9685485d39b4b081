"""Logins: who is admitted, limits of guesses, and that the end of a login holds at once."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable

import pytest

from tests.conftest import MovableClock
from tests.support.crowd import at_once, refusals
from tests.support.example_client import OPERATOR, PASSWORD, ExampleClient
from tests.support.made_once import SHIPPED_HASHER
from ussd_server.bootstrap import Services
from ussd_server.context import Caller, CallerKind, RequestContext
from ussd_server.database.unit_of_work import database
from ussd_server.models.clients import AuditEvent, Login
from ussd_server.security import passwords
from ussd_server.services.clients.messages import LogIn, LoginView
from ussd_server.status import Code, ServiceError


def log_in(services: Services, email: str, password: str = PASSWORD, address: str = "192.0.2.1") -> LoginView:
    return services.logins.begin(LogIn(email, password), RequestContext(Caller(CallerKind.NOBODY), address=address))


def refresh(services: Services, token: str) -> LoginView:
    return services.logins.refresh(token, RequestContext(Caller(CallerKind.NOBODY)))


def code_of(change: Callable[[], object]) -> Code:
    with pytest.raises(ServiceError) as refusal:
        change()
    return refusal.value.code


def is_open(services: Services, view: LoginView) -> bool:
    """Whether a login's access token is accepted."""
    try:
        return services.auth.authenticate_token(view.access_token).client_id == view.client_id
    except ServiceError:
        return False


def actions(client_id: str | None) -> list[str]:
    rows = AuditEvent.select().where(
        AuditEvent.client_id.is_null() if client_id is None else AuditEvent.client_id == client_id
    )
    return [row.action for row in rows.order_by(AuditEvent.created_at, AuditEvent.id)]


@pytest.mark.both_databases
def test_a_hundred_guesses_at_once_get_no_further_than_ten(services: Services, example_client: ExampleClient) -> None:
    email = example_client.email()
    guesses = at_once([lambda: log_in(services, email, "a wrong guess")] * 100)
    outcomes = [guess.code for guess in guesses]
    assert outcomes.count(Code.INVALID_CREDENTIALS) == 10
    assert outcomes.count(Code.RATE_LIMIT_EXCEEDED) == 90


@pytest.mark.both_databases
def test_right_passwords_use_up_nothing_and_forgive_earlier_mistakes(
    services: Services, example_client: ExampleClient
) -> None:
    email = example_client.email()
    assert refusals(at_once([lambda: log_in(services, email)] * 70)) == []
    for _ in range(3):
        for _ in range(9):
            assert code_of(lambda: log_in(services, email, "a typing mistake")) is Code.INVALID_CREDENTIALS
        log_in(services, email)


def test_one_address_cannot_guess_under_many_names(services: Services, example_client: ExampleClient) -> None:
    for number in range(60):
        name = f"guess-{number}@acme.example"
        assert code_of(lambda name=name: log_in(services, name)) is Code.INVALID_CREDENTIALS
    assert code_of(lambda: log_in(services, example_client.email())) is Code.RATE_LIMIT_EXCEEDED
    assert is_open(services, log_in(services, example_client.email(), address="192.0.2.2"))


def test_the_addresses_of_one_ipv6_network_guess_together(services: Services, example_client: ExampleClient) -> None:
    email = example_client.email()
    for number in range(10):
        address = f"2001:db8:0:1::{number:x}"
        assert code_of(lambda a=address: log_in(services, email, "wrong", a)) is Code.INVALID_CREDENTIALS
    assert code_of(lambda: log_in(services, email, address="2001:db8:0:1:ffff::1")) is Code.RATE_LIMIT_EXCEEDED
    assert is_open(services, log_in(services, email, address="2001:db8:0:2::1"))


def test_passwords_are_checked_outside_every_transaction_and_also_for_unknown_addresses(
    services: Services, example_client: ExampleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, checked = passwords.matches, []

    def watch(password: str, password_hash: str | None) -> bool:
        checked.append((database.in_transaction(), password_hash is None))
        return real(password, password_hash)

    monkeypatch.setattr(passwords, "matches", watch)
    log_in(services, example_client.email())
    assert code_of(lambda: log_in(services, "nobody@acme.example")) is Code.INVALID_CREDENTIALS
    assert checked == [(False, False), (False, True)]


def test_an_unknown_users_password_costs_what_a_known_ones_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "_HASHER", SHIPPED_HASHER)
    monkeypatch.setattr(passwords, "_unknown_user_hash", functools.cache(passwords._unknown_user_hash.__wrapped__))
    kept = passwords.hash_password(PASSWORD)
    assert kept.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert passwords._unknown_user_hash().startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert passwords.matches(PASSWORD, kept)
    assert not passwords.matches(PASSWORD + " ", kept)
    assert not passwords.matches(PASSWORD, None)


@pytest.mark.both_databases
def test_many_passwords_at_once_take_the_memory_of_a_few() -> None:
    # 24 hashes at a time would take 456 MiB, and keep them.
    measure = """
import re, threading
from pathlib import Path
from ussd_server.security import passwords

def most_memory():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) // 1024

before = most_memory()
threads = [threading.Thread(target=passwords.matches, args=("x", None)) for _ in range(24)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(most_memory() - before)
"""
    ran = subprocess.run([sys.executable, "-c", measure], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 120


def test_every_login_stands_in_the_trail(services: Services, example_client: ExampleClient) -> None:
    view = log_in(services, example_client.email())
    assert code_of(lambda: log_in(services, example_client.email(), "wrong")) is Code.INVALID_CREDENTIALS
    assert code_of(lambda: log_in(services, "nobody@acme.example")) is Code.INVALID_CREDENTIALS
    refreshed = refresh(services, view.refresh_token)
    assert code_of(lambda: refresh(services, view.refresh_token)) is Code.INVALID_CREDENTIALS
    assert not is_open(services, refreshed)
    assert actions(example_client.id)[-3:] == ["login.succeeded", "login.failed", "login.refresh_token_reused"]
    assert actions(None) == ["login.failed"]


@pytest.mark.both_databases
def test_of_many_who_use_one_refresh_token_at_once_one_wins_and_the_login_ends(
    services: Services, example_client: ExampleClient
) -> None:
    view = log_in(services, example_client.email())
    outcomes = at_once([lambda: refresh(services, view.refresh_token)] * 12, threads=12)
    (won,) = [outcome for outcome in outcomes if isinstance(outcome, LoginView)]
    assert set(refusals(outcomes)) == {"Invalid refresh token"}
    assert not is_open(services, won)
    assert code_of(lambda: refresh(services, won.refresh_token)) is Code.INVALID_CREDENTIALS
    assert Login.get().end_reason == "refresh_token_reused"


def test_a_login_goes_on_as_long_as_it_is_refreshed_within_thirty_days(
    services: Services, example_client: ExampleClient, clock: MovableClock
) -> None:
    view = log_in(services, example_client.email())
    for _ in range(3):
        clock.advance(29 * 86_400)
        view = refresh(services, view.refresh_token)
        assert is_open(services, view)
    clock.advance(30 * 86_400 + 1)
    assert code_of(lambda: refresh(services, view.refresh_token)) is Code.INVALID_CREDENTIALS


def test_logging_out_ends_this_login_or_all_of_this_person(services: Services, example_client: ExampleClient) -> None:
    first, second, admin = (log_in(services, example_client.email(role)) for role in ("owner", "owner", "admin"))

    def log_out(view: LoginView, everywhere: bool) -> None:
        services.logins.end(everywhere, RequestContext(services.auth.authenticate_token(view.access_token)))

    log_out(first, everywhere=False)
    assert [is_open(services, view) for view in (first, second, admin)] == [False, True, True]
    third = log_in(services, example_client.email())
    log_out(third, everywhere=True)
    assert [is_open(services, view) for view in (second, third, admin)] == [False, False, True]
    assert code_of(lambda: refresh(services, second.refresh_token)) is Code.INVALID_CREDENTIALS


def test_another_password_ends_every_login_and_only_the_new_one_opens(
    services: Services, example_client: ExampleClient
) -> None:
    view = log_in(services, example_client.email())
    services.clients.change_password(example_client.email(), "another good password", OPERATOR)
    assert not is_open(services, view)
    assert code_of(lambda: refresh(services, view.refresh_token)) is Code.INVALID_CREDENTIALS
    assert code_of(lambda: log_in(services, example_client.email())) is Code.INVALID_CREDENTIALS
    assert is_open(services, log_in(services, example_client.email(), "another good password"))


def test_a_login_that_crosses_a_change_of_password_does_not_outlive_it(
    services: Services, example_client: ExampleClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    email, real = example_client.email(), passwords.matches

    def change_meanwhile(password: str, password_hash: str | None) -> bool:
        is_right = real(password, password_hash)
        services.clients.change_password(email, "another good password", OPERATOR)
        return is_right

    monkeypatch.setattr(passwords, "matches", change_meanwhile)
    assert code_of(lambda: log_in(services, email)) is Code.INVALID_CREDENTIALS
    assert Login.select().where(Login.ended_at.is_null()).count() == 0


def test_disabling_a_person_or_a_client_ends_their_logins(services: Services, example_client: ExampleClient) -> None:
    owner, admin = log_in(services, example_client.email()), log_in(services, example_client.email("admin"))
    services.clients.set_user_active(example_client.email(), False, OPERATOR)
    assert [is_open(services, view) for view in (owner, admin)] == [False, True]
    assert code_of(lambda: log_in(services, example_client.email())) is Code.INVALID_CREDENTIALS
    services.clients.set_active(example_client.id, False, OPERATOR)
    assert not is_open(services, admin)
    assert code_of(lambda: log_in(services, example_client.email("admin"))) is Code.INVALID_CREDENTIALS
    services.clients.set_active(example_client.id, True, OPERATOR)
    services.clients.set_user_active(example_client.email(), True, OPERATOR)
    assert [is_open(services, view) for view in (owner, admin)] == [False, False]
    assert is_open(services, log_in(services, example_client.email()))


def test_tokens_and_passwords_never_show_in_a_repr(services: Services, example_client: ExampleClient) -> None:
    view = log_in(services, example_client.email())
    shown = f"{view!r}{LogIn(example_client.email(), PASSWORD)!r}"
    assert not [secret for secret in (view.access_token, view.refresh_token, PASSWORD) if secret in shown]
