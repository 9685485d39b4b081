"""A person's own password and logins, and what the sign-in page says after a login ended."""

from __future__ import annotations

import re

from tests.conftest import MovableClock
from tests.console.conftest import Visit
from tests.support.example_client import PASSWORD, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent, Login

NEW = "another long password"


def actions() -> list[str]:
    return [event.action for event in AuditEvent.select().order_by(AuditEvent.id)]


def form(**fields: str) -> dict[str, str]:
    return {"present_password": PASSWORD, "new_password": NEW, "new_password_again": NEW} | fields


def test_a_person_changes_the_password_and_all_other_logins_end(visit: Visit, example_client: ExampleClient) -> None:
    here, elsewhere, colleague = visit(), visit(), visit("admin")
    assert "Change your password" in here.get("/security").text
    assert here.post("/security/password", **form()).status_code == 303
    assert "Your password is changed" in here.get("/security").text
    assert elsewhere.get("/transactions").status_code == 302
    assert "because your password was changed" in elsewhere.get("/sign-in").text
    assert "because your password was changed" not in elsewhere.get("/sign-in").text
    assert colleague.get("/transactions").status_code == 200
    assert "user.password_changed" in actions()
    assert elsewhere.sign_in(example_client.email()).status_code == 401
    assert elsewhere.sign_in(example_client.email(), NEW).status_code == 303


def test_a_password_is_changed_with_the_present_one_only(visit: Visit) -> None:
    visitor, other = visit(), visit()
    visitor.get("/security")
    for wrong, status, shown in (
        ({"present_password": "a wrong password"}, 401, "Your present password is another one."),
        ({"new_password": "short", "new_password_again": "short"}, 400, "12 to 256"),
        ({"new_password_again": "something else"}, 400, "The two passwords differ."),
        ({"new_password": PASSWORD, "new_password_again": PASSWORD}, 400, "Choose another password"),
    ):
        refused = visitor.post("/security/password", **form(**wrong))
        assert (refused.status_code, shown in refused.text) == (status, True), wrong
        assert 'class="confirm" open' in refused.text
        assert NEW not in refused.text
    assert "user.password_refused" in actions()
    assert "user.password_changed" not in actions()
    assert other.get("/transactions").status_code == 200


def test_guesses_of_the_present_password_are_limited(visit: Visit) -> None:
    visitor = visit()
    visitor.get("/security")
    replies = [visitor.post("/security/password", **form(present_password="wrong")).status_code for _ in range(12)]
    assert replies[0] == 401
    assert replies[-1] == 429
    assert visitor.post("/security/password", **form()).status_code == 429


def test_a_person_sees_and_ends_their_own_logins_only(visit: Visit, services: Services) -> None:
    here, elsewhere, colleague = visit(), visit(), visit("admin")
    page = here.get("/security").text
    assert page.count('<tr><td class="code"') == 2
    assert page.count("this login") == 1
    path = re.search(r'action="/console(/security/logins/[^"]+/end)"', page)
    assert path
    colleague.get("/security")
    assert colleague.post(path[1]).status_code == 404
    assert elsewhere.get("/transactions").status_code == 200
    assert here.post(path[1]).status_code == 303
    assert here.get("/security").text.count('<tr><td class="code"') == 1
    assert "You signed out in another window." in elsewhere.get("/transactions", follow_redirects=True).text
    assert here.post(path[1]).status_code == 404
    assert here.post("/security/logins/nonsense/end").status_code == 404


def test_the_sign_in_page_says_why_a_session_ended(visit: Visit, services: Services, clock: MovableClock) -> None:
    visitor = visit()
    clock.advance(1801)
    asked = visitor.get("/transactions?status=failed")
    assert asked.location == "/console/sign-in?next=/console/transactions?status%3Dfailed"
    page = visitor.get(asked.location.removeprefix("/console")).text
    assert "because nothing happened here for 30 minutes" in page
    assert 'value="/console/transactions?status=failed"' in page
    late = visit()
    Login.update(expires_at=clock.now()).execute()
    assert "Your login has ended. Please sign in again." in late.get("/transactions", follow_redirects=True).text


def test_the_sign_in_page_says_nothing_after_a_sign_out(visit: Visit) -> None:
    visitor = visit()
    visitor.post("/sign-out")
    visitor.get("/sign-in")
    page = visitor.get("/transactions", follow_redirects=True).text
    assert "signed out, because" not in page
    assert "has ended" not in page
