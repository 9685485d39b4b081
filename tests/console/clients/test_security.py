"""The second factor on the console: adding it, fresh codes, and people who have to add one."""

from __future__ import annotations

import re
from base64 import b64decode
from html import unescape
from urllib.parse import unquote

import pyotp
from flask import Flask
from werkzeug.test import TestResponse

from tests.conftest import MovableClock
from tests.console.conftest import ConsoleVisitor, Visit
from tests.support.example_client import PASSWORD, ExampleClient
from ussd_server.bootstrap import Services
from ussd_server.models.clients import AuditEvent, User
from ussd_server.models.keys import ApiKey

_SECRET = re.compile(r'data-copy="([A-Z2-7]{32})"')
_FIELD = re.compile(r'name="secret" value="([^"]+)"')
_RECOVERY_CODE = re.compile(r"<li><code>([a-z2-9-]{19})</code></li>")


class Phone:
    """The authenticator of a person, and the recovery codes that the console showed."""

    def __init__(self, clock: MovableClock, visitor: ConsoleVisitor) -> None:
        self._clock = clock
        page = visitor.get("/security/new").text
        self.secret = _SECRET.search(page)[1]  # type: ignore[index]
        field = unescape(_FIELD.search(page)[1])  # type: ignore[index]
        self.shown = visitor.post("/security/new", secret=field, code=self.code()).text
        self.recovery_codes = _RECOVERY_CODE.findall(self.shown)
        visitor.get("/security")

    def code(self) -> str:
        return pyotp.TOTP(self.secret).at(self._clock.now())

    def next_code(self) -> str:
        """The code of the next 30 seconds, which was not used."""
        self._clock.advance(30)
        return self.code()


def actions() -> list[str]:
    return [event.action for event in AuditEvent.select().order_by(AuditEvent.id)]


def test_a_person_adds_a_second_factor_by_its_qr_code_and_signs_in_with_it(
    visit: Visit, clock: MovableClock, example_client: ExampleClient
) -> None:
    visitor, other_browser = visit(), visit()
    assert "Add a second factor" in visitor.get("/security").text
    page = visitor.get("/security/new").text
    assert '<img class="qr-code" src="data:image/svg+xml' in page
    secret = _SECRET.search(page)[1]  # type: ignore[index]
    field = unescape(_FIELD.search(page)[1])  # type: ignore[index]
    assert secret not in field
    for bad in ("", "000000x", "9" * 5000):
        again = visitor.post("/security/new", secret=field, code=bad)
        assert again.status_code == 400
        assert _SECRET.search(again.text)[1] == secret  # type: ignore[index]
    assert visitor.post("/security/new", secret="forged", code="123456").status_code == 400
    assert "user.factor_added" not in actions()
    phone = Phone(clock, visitor)
    assert len(set(phone.recovery_codes)) == 10
    assert "no-store" in visitor.get("/security").headers["Cache-Control"]
    assert phone.recovery_codes[0] not in visitor.get("/security").text
    assert other_browser.get("/security").status_code == 302
    refused = visit_again(other_browser, example_client, "")
    assert (refused.status_code, "Second factor required" in refused.text) == (401, True)
    assert visit_again(other_browser, example_client, "000000").status_code == 401
    assert visit_again(other_browser, example_client, phone.next_code()).status_code == 303
    assert "user.factor_added" in actions()


def visit_again(visitor: ConsoleVisitor, client: ExampleClient, code: str) -> TestResponse:
    visitor.get("/sign-in")
    return visitor.post("/sign-in", email=client.email(), password=PASSWORD, code=code)


def test_another_persons_secret_is_not_taken(visit: Visit, clock: MovableClock) -> None:
    owner, admin = visit(), visit("admin")
    page = owner.get("/security/new").text
    field = unescape(_FIELD.search(page)[1])  # type: ignore[index]
    code = pyotp.TOTP(_SECRET.search(page)[1]).at(clock.now())  # type: ignore[index]
    admin.get("/security/new")
    assert "too old" in admin.post("/security/new", secret=field, code=code).text
    assert "user.factor_added" not in actions()


def test_what_matters_needs_a_code_of_the_last_ten_minutes_and_goes_on_with_the_form(
    visit: Visit, clock: MovableClock
) -> None:
    visitor = visit()
    phone = Phone(clock, visitor)
    assert visitor.post("/api-keys/new", access="all").status_code == 303
    clock.advance(601)
    visitor.get("/api-keys/new")
    asked = visitor.post("/api-keys/new", access="some", scopes=["ussd:read", "balance:read"])
    assert (asked.status_code, ApiKey.select().count()) == (401, 1)
    assert 'action="/console/api-keys/new"' in asked.text
    assert 'value="ussd:read"' in asked.text
    form = {"access": "some", "scopes": ["ussd:read", "balance:read"]}
    for wrong in ("123", "é" * 6, "9" * 5000, phone.code()[::-1] + "0"):
        refused = visitor.post("/api-keys/new", **form, fresh_code=wrong)
        assert (refused.status_code, ApiKey.select().count()) == (401, 1)
        assert "Wrong code" in refused.text
    code = phone.next_code()
    assert visitor.post("/api-keys/new", **form, fresh_code=code).status_code == 303
    assert ApiKey.select().order_by(ApiKey.id.desc()).get().scopes == "ussd:read balance:read"
    clock.advance(590)
    visitor.get("/api-keys/new")
    assert visitor.post("/api-keys/new", access="all").status_code == 303
    clock.advance(11)
    visitor.get("/api-keys/new")
    assert visitor.post("/api-keys/new", access="all").status_code == 401
    # A used code is not taken again, a recovery code is, once.
    assert visitor.post("/api-keys/new", access="all", fresh_code=code).status_code == 401
    assert visitor.post("/api-keys/new", access="all", fresh_code=phone.recovery_codes[0]).status_code == 303
    clock.advance(601)
    visitor.get("/api-keys/new")
    assert visitor.post("/api-keys/new", access="all", fresh_code=phone.recovery_codes[0]).status_code == 401
    assert {"login.code_accepted", "login.code_refused"} <= set(actions())


def test_every_page_that_approves_refunds_or_changes_keys_and_people_needs_a_fresh_code(
    app: Flask, visit: Visit, clock: MovableClock
) -> None:
    rules = [rule.rule.removeprefix("/console") for rule in app.url_map.iter_rules() if "POST" in (rule.methods or ())]
    paths = [rule for rule in rules if re.match(r"/(api-keys|people|security)/|.+/(approve|refund)$", rule)]
    paths = [re.sub(r"<any.(\w+).+?>", r"\1", path) for path in paths if not path.startswith(("/operator/", "/api/"))]
    assert {"/api-keys/<api_key_id>/reveal", "/payouts/<payout_id>/approve", "/people/invite"} <= set(paths)
    assert len(paths) >= 18
    visitor = visit()
    Phone(clock, visitor)
    clock.advance(601)
    visitor.get("/security")
    for path in paths:
        asked = visitor.post(re.sub("<.+?>", "019e0000-0000-7000-8000-000000000000", path))
        assert (path, asked.status_code, "Enter a code" in asked.text) == (path, 401, True)


def test_a_person_without_a_second_factor_is_never_asked(visit: Visit, clock: MovableClock) -> None:
    visitor = visit()
    clock.advance(900)
    visitor.get("/api-keys/new")
    assert visitor.post("/api-keys/new", access="all", fresh_code="123456").status_code == 303


def test_a_code_is_not_kept_through_a_sign_in(visit: Visit, clock: MovableClock) -> None:
    visitor = visit()
    phone = Phone(clock, visitor)
    clock.advance(3600)
    asked = visitor.post("/api-keys/new", access="all", fresh_code=phone.recovery_codes[0])
    assert (asked.status_code, 'name="kept"' in asked.text) == (401, True)
    kept = unescape(re.search(r'name="kept" value="([^"]+)"', asked.text)[1])  # type: ignore[index]
    email = User.get(User.role == "owner").email
    offered = visitor.post("/sign-in", email=email, password=PASSWORD, code=phone.next_code(), kept=kept)
    assert 'name="access" value="all"' in offered.text
    assert "fresh_code" not in offered.text
    assert phone.recovery_codes[0] not in offered.text


def test_guesses_of_a_fresh_code_are_limited(visit: Visit, clock: MovableClock) -> None:
    visitor = visit()
    phone = Phone(clock, visitor)
    clock.advance(601)
    visitor.get("/api-keys/new")
    for _ in range(10):
        assert visitor.post("/api-keys/new", access="all", fresh_code="wrong").status_code == 401
    refused = visitor.post("/api-keys/new", access="all", fresh_code=phone.next_code())
    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    assert ApiKey.select().count() == 0


def test_an_owner_requires_a_second_factor_and_each_person_is_led_to_add_one(visit: Visit, clock: MovableClock) -> None:
    owner, viewer = visit(), visit("viewer")
    assert "Require it of every person" in owner.get("/people").text
    assert "Require it of every person" not in visit("admin").get("/people").text
    assert "Add a second factor first." in owner.post("/people/second-factor/required").text
    Phone(clock, owner)
    assert owner.post("/people/second-factor/required").status_code == 303
    listed = owner.get("/people?format=json").json["items"]
    assert {item["email"].split("@")[0]: item["second_factor"] for item in listed} == {
        "owner": "yes",
        "viewer": "no",
        "admin": "no",
    }
    for path in ("", "/transactions", "/people"):
        assert viewer.get(path).location == "/console/security/new"
    polled = viewer.get("/transactions", headers={"X-Console-Poll": "new", "HX-Request": "true"})
    assert (polled.status_code, polled.headers["HX-Refresh"]) == (401, "true")
    assert "Your client requires a second factor" in viewer.get("/security/new").text
    assert viewer.post("/security/recovery-codes").location == "/console/security/new"
    again = visit("viewer")
    assert again.get("/transactions").location == "/console/security/new"
    leaving = visit("viewer")
    leaving.get("/security")
    assert leaving.post("/sign-out").location == "/console/sign-in"
    Phone(clock, again)
    assert again.get("/transactions").status_code == 200
    assert "Remove the second factor" not in again.get("/security").text
    assert again.post("/security/remove").status_code == 400
    # A viewer may not decide it, an owner may leave it to each person again.
    assert again.post("/people/second-factor/optional").status_code == 403
    assert owner.post("/people/second-factor/optional").status_code == 303
    assert again.post("/security/remove").status_code == 303


def test_only_an_owner_removes_a_colleagues_second_factor(
    visit: Visit, services: Services, clock: MovableClock
) -> None:
    owner, admin, developer = visit(), visit("admin"), visit("developer")
    Phone(clock, developer)
    developers_id = User.get(User.role == "developer").id
    path = f"/people/{developers_id}"
    assert "Remove the second factor" in owner.get(path).text
    assert "Remove the second factor" not in admin.get(path).text
    assert admin.post(f"{path}/second-factor/remove").status_code == 403
    other = visit("owner", ExampleClient(services, "other"))
    assert other.post(f"{path}/second-factor/remove").status_code == 404
    assert owner.post(f"{path}/second-factor/remove").location == f"/console{path}"
    assert developer.get("/security").status_code == 302
    assert owner.post(f"{path}/second-factor/remove").status_code == 400
    assert AuditEvent.get(AuditEvent.action == "user.factor_removed").object_id == developers_id


def test_recovery_codes_are_made_anew_and_the_old_ones_end(
    visit: Visit, clock: MovableClock, example_client: ExampleClient
) -> None:
    visitor = visit()
    assert visitor.post("/security/recovery-codes").status_code == 400
    phone = Phone(clock, visitor)
    fresh = _RECOVERY_CODE.findall(visitor.post("/security/recovery-codes").text)
    assert len(set(fresh) | set(phone.recovery_codes)) == 20
    visitor.post("/sign-out")
    assert visit_again(visitor, example_client, phone.recovery_codes[1]).status_code == 401
    assert visit_again(visitor, example_client, fresh[1]).status_code == 303


def test_the_qr_code_is_an_image_of_the_page_itself(visit: Visit) -> None:
    qr_code = re.search(r'src="(data:image/svg[^"]+)"', visit().get("/security/new").text)
    assert qr_code
    kind, _, data = unescape(qr_code[1]).partition(",")
    svg = b64decode(data).decode() if kind.endswith("base64") else unquote(data)
    assert "<svg" in svg
