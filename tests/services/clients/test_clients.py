"""Clients and people, as the operator keeps them."""

from __future__ import annotations

import pytest

from tests.support.crowd import at_once, refusals
from tests.support.example_client import OPERATOR, PASSWORD, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.models.clients import User
from ussd_server.services.audit.messages import ListAuditEvents
from ussd_server.services.clients.messages import CreateClient, CreateUser
from ussd_server.status import ServiceError

GIVEN_ID = "0192e4a0-0000-7000-8000-00000000abcd"


def test_a_client_is_found_by_its_name_and_by_its_id(services: Services) -> None:
    made = services.clients.create(CreateClient("Wasiko Ltd", GIVEN_ID), OPERATOR)
    assert made.client_id == GIVEN_ID
    assert services.clients.find("Wasiko Ltd", OPERATOR) == made == services.clients.find(GIVEN_ID, OPERATOR)
    assert services.clients.list(OPERATOR) == (made,)


@pytest.mark.both_databases
def test_a_name_and_an_id_belong_to_one_client_also_when_many_ask_at_once(services: Services) -> None:
    outcomes = at_once([lambda: services.clients.create(CreateClient("Acme"), OPERATOR)] * 8, threads=8)
    assert refusals(outcomes) == ["There is a client of this name or id already"] * 7
    taken = services.clients.list(OPERATOR)[0].client_id
    with pytest.raises(ServiceError, match="already"):
        services.clients.create(CreateClient("Other", taken), OPERATOR)


def test_a_client_needs_a_plain_name(services: Services) -> None:
    for name in ("", " x", "x ", "x" * 101, "a\nb", "a\x00b", GIVEN_ID):
        with pytest.raises(ServiceError, match="name: Must"):
            services.clients.create(CreateClient(name), OPERATOR)


def test_a_given_id_is_a_lower_case_uuid(services: Services) -> None:
    for client_id in ("", "x", GIVEN_ID.upper(), f"{{{GIVEN_ID}}}"):
        with pytest.raises(ServiceError, match="client_id: Must"):
            services.clients.create(CreateClient("Acme", client_id), OPERATOR)


def test_a_person_needs_an_address_a_role_and_a_password(services: Services) -> None:
    client = services.clients.create(CreateClient("Acme"), OPERATOR)
    good = {"client_id": client.client_id, "email": "a@acme.example", "role": "owner", "password": PASSWORD}
    for change, sentence in [
        ({"email": "acme.example"}, "email: Must"), ({"email": "a@b@c"}, "email: Must"),
        ({"email": "a b@c"}, "email: Must"), ({"email": "a@b\n"}, "email: Must"),
        ({"email": "a@" + "b" * 260}, "email: Must"), ({"role": "root"}, "role: Must"),
        ({"password": "short"}, "password: Must"), ({"password": "x" * 257}, "password: Must"),
        ({"password": "twelve chars\x00"}, "password: Must"), ({"client_id": "Nobody"}, "Client not found"),
    ]:  # fmt: skip
        with pytest.raises(ServiceError, match=sentence):
            services.clients.create_user(CreateUser(**{**good, **change}), OPERATOR)
    made = services.clients.create_user(CreateUser(**{**good, "email": "A@Acme.example"}), OPERATOR)
    assert made.email == "a@acme.example"
    with pytest.raises(ServiceError, match="Belongs to a user already"):
        services.clients.create_user(CreateUser(**good), OPERATOR)
    assert services.clients.list_users("Acme", OPERATOR) == (made,)
    assert services.clients.find_user("A@ACME.example", OPERATOR) == made


def test_a_password_is_kept_as_argon2id_only(services: Services) -> None:
    email = ExampleClient(services).email()
    assert User.get(User.email == email).password_hash.startswith("$argon2id$")


def test_what_the_operator_does_stands_in_the_clients_trail(services: Services) -> None:
    example_client = ExampleClient(services)
    email = example_client.email("viewer")
    services.clients.set_user_active(email, False, OPERATOR)
    services.clients.set_user_active(email, True, OPERATOR)
    services.clients.change_password(email, "another good password", OPERATOR)
    services.clients.set_active(example_client.id, False, OPERATOR)
    services.clients.set_active(example_client.id, True, OPERATOR)
    trail = services.audit.list(ListAuditEvents(), example_client.call()).items
    by_operator = [event.action for event in trail if event.actor == "operator"]
    assert set(by_operator) == {
        "client.created", "user.created", "user.disabled", "user.enabled", "user.password_changed", "client.disabled",
        "client.enabled",
    }  # fmt: skip


def test_a_client_sees_its_own_trail_only(services: Services) -> None:
    mine, other = ExampleClient(services), ExampleClient(services, "other")
    other.create_key()
    cursor = services.audit.list(ListAuditEvents(limit=1), other.call()).next_cursor
    for request in (ListAuditEvents(), ListAuditEvents(cursor=cursor)):
        seen = services.audit.list(request, mine.call()).items
        assert {event.email for event in seen} <= {None, mine.email()}
