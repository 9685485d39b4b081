"""MTN's provisioning, tokens and headers, as tables of raw requests and responses."""

import uuid
from typing import Any

import pytest

from simulators.mtn import MtnMomo, MtnSettings
from simulators.server import run
from tests.simulators.callers import MtnCaller

KEY = {"Ocp-Apim-Subscription-Key": "collection-key"}


def test_an_api_user_is_its_own_reference_and_shows_its_host(mtn: MtnCaller) -> None:
    shown = mtn.http.get(f"/v1_0/apiuser/{mtn.user}", headers=KEY)
    assert shown.status_code == 200
    assert shown.json() == {"providerCallbackHost": "127.0.0.1", "targetEnvironment": "sandbox"}


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({}, {"providerCallbackHost": "a.example"}, 401),
        (KEY, {"providerCallbackHost": "a.example"}, 400),
        (KEY | {"X-Reference-Id": "not-a-uuid"}, {"providerCallbackHost": "a.example"}, 400),
        (KEY | {"X-Reference-Id": str(uuid.uuid4())}, {"providerCallbackHost": "https://a.example"}, 201),
        (KEY | {"X-Reference-Id": str(uuid.uuid4())}, {"providerCallbackHost": "a.example/path"}, 400),
        (KEY | {"X-Reference-Id": str(uuid.uuid4())}, {}, 400),
        (KEY | {"X-Reference-Id": str(uuid.uuid4())}, {"providerCallbackHost": "a.example"}, 201),
    ],
)
def test_an_api_user_needs_a_key_a_version_4_reference_and_a_host(
    mtn: MtnCaller, headers: dict[str, str], body: dict[str, str], status: int
) -> None:
    assert mtn.http.post("/v1_0/apiuser", headers=headers, json=body).status_code == status


def test_a_user_made_twice_is_a_conflict_and_an_unknown_one_has_no_key(mtn: MtnCaller) -> None:
    again = mtn.http.post(
        "/v1_0/apiuser", headers=KEY | {"X-Reference-Id": mtn.user}, json={"providerCallbackHost": "a.example"}
    )
    assert (again.status_code, again.json()["code"]) == (409, "RESOURCE_ALREADY_EXIST")
    assert mtn.http.post(f"/v1_0/apiuser/{uuid.uuid4()}/apikey", headers=KEY).status_code == 404


@pytest.mark.parametrize("body", [b"", b"{}", b"null", b'{"providerCallbackHost": "a.example"}'])
def test_an_api_key_is_made_with_every_body_that_clients_send(mtn: MtnCaller, body: bytes) -> None:
    headers = KEY | {"Content-Type": "application/json"}
    made = mtn.http.post(f"/v1_0/apiuser/{mtn.user}/apikey", headers=headers, content=body)
    assert made.status_code == 201
    mtn.key = made.json()["apiKey"]
    assert mtn.request_token("collection").status_code == 200


@pytest.mark.parametrize("path", ["account/balance", "requesttopay/{reference}"])
def test_a_read_request_may_have_the_body_null(mtn: MtnCaller, path: str) -> None:
    url = f"/collection/v1_0/{path.format(reference=mtn.pay())}"
    headers = mtn.headers("collection") | {"Content-Type": "application/json"}
    assert mtn.http.request("GET", url, headers=headers, content=b"null").status_code == 200


def test_a_live_environment_has_no_provisioning_but_its_own_user() -> None:
    user = str(uuid.uuid4())
    settings = MtnSettings("mtnuganda", "UGX", api_user=user, api_key="portal-key")
    with run(MtnMomo(settings)) as base_url, MtnCaller(base_url, "UGX", "mtnuganda") as caller:
        made = caller.http.post("/v1_0/apiuser", headers=KEY | {"X-Reference-Id": str(uuid.uuid4())}, json={})
        assert made.status_code == 404
        token = caller.http.post("/collection/token/", headers=KEY, auth=(user, "portal-key"))
        assert token.status_code == 200


def test_a_token_has_three_fields(mtn: MtnCaller) -> None:
    response = mtn.request_token("collection")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert len(body.pop("access_token")) > 20
    assert body == {"token_type": "access_token", "expires_in": 3600}


@pytest.mark.parametrize("body", [b"", b"{}", b"null"])
def test_a_token_call_takes_an_empty_body_in_every_form_clients_send(mtn: MtnCaller, body: bytes) -> None:
    assert mtn.request_token("collection", content=body).status_code == 200


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"auth": ("nobody", "nothing")}, 401),
        ({"auth": None}, 401),
        ({"headers": {"Ocp-Apim-Subscription-Key": "disbursement-key"}}, 401),
        ({"content": b'{"grant_type": "client_credentials"}'}, 400),
        ({"content": b"grant_type=client_credentials"}, 400),
    ],
)
def test_a_token_is_refused(mtn: MtnCaller, changes: dict[str, Any], status: int) -> None:
    assert mtn.request_token("collection", **changes).status_code == status


@pytest.mark.parametrize(
    ("changes", "status", "code"),
    [
        ({"Authorization": "Bearer unknown"}, 401, None),
        ({"Authorization": ""}, 401, None),
        ({"Ocp-Apim-Subscription-Key": "disbursement-key"}, 401, None),
        ({"X-Target-Environment": "mtnuganda"}, 500, "NOT_ALLOWED_TARGET_ENVIRONMENT"),
        ({"X-Reference-Id": ""}, 400, None),
        ({"X-Reference-Id": "12345"}, 400, None),
        ({"X-Reference-Id": str(uuid.uuid5(uuid.NAMESPACE_URL, "x"))}, 400, None),
        ({"X-Reference-Id": uuid.uuid4().hex}, 400, None),
        ({"X-Reference-Id": str(uuid.uuid4()).upper()}, 202, None),
        ({"X-Callback-Url": ""}, 400, None),
        ({"X-Callback-Url": "null"}, 400, None),
        ({"X-Callback-Url": "http://[broken"}, 400, None),
        ({"Content-Type": "text/plain"}, 400, None),
    ],
)
def test_every_header_of_a_payment_is_checked(
    mtn: MtnCaller, changes: dict[str, str], status: int, code: str | None
) -> None:
    headers = mtn.headers("collection", str(uuid.uuid4())) | changes
    response = mtn.http.post("/collection/v1_0/requesttopay", headers=headers, json=mtn.body())
    assert response.status_code == status
    if code:
        assert response.json()["code"] == code


def test_a_token_serves_one_product_only(mtn: MtnCaller) -> None:
    headers = mtn.headers("disbursement") | {"Authorization": mtn.headers("collection")["Authorization"]}
    assert mtn.http.get("/disbursement/v1_0/account/balance", headers=headers).status_code == 401


def test_a_token_ends_with_its_hour_and_a_new_one_serves(mtn: MtnCaller) -> None:
    assert mtn.account("account/balance").status_code == 200
    mtn.advance(3599)
    assert mtn.account("account/balance").status_code == 200
    mtn.advance(2)
    assert mtn.account("account/balance").status_code == 401
    mtn.tokens.clear()
    assert mtn.account("account/balance").status_code == 200


def test_callbacks_of_a_live_environment_go_to_the_registered_host_only() -> None:
    user = str(uuid.uuid4())
    settings = MtnSettings("mtnuganda", "UGX", api_user=user, api_key="key", callback_host="hooks.example.com")
    with run(MtnMomo(settings)) as base_url:
        caller = MtnCaller(base_url, "UGX", "mtnuganda")
        caller.user, caller.key = user, "key"
        with caller:
            refused = caller.submit(url="https://other.example.com/hook")
            assert (refused.status_code, refused.json()["code"]) == (500, "INVALID_CALLBACK_URL_HOST")
            reference = caller.pay(url="https://hooks.example.com/hook")
            assert caller.outcome(reference) == ("SUCCESSFUL", "")


def test_unknown_paths_and_methods_return_json(mtn: MtnCaller) -> None:
    assert mtn.http.get("/collection/v2_0/nothing").json()["code"] == "RESOURCE_NOT_FOUND"
    assert mtn.http.delete("/collection/v1_0/requesttopay").json()["statusCode"] == 405


def test_a_balance_may_be_asked_for_in_its_currency(mtn: MtnCaller) -> None:
    path, headers = "/collection/v1_0/account/balance", mtn.headers("collection")
    assert mtn.http.get(f"{path}/EUR", headers=headers).json() == mtn.http.get(path, headers=headers).json()
    assert mtn.http.get(f"{path}/UGX", headers=headers).json()["code"] == "INVALID_CURRENCY"


def test_the_newer_platform_wants_the_environment_with_the_token_and_no_python_requests() -> None:
    settings = MtnSettings("mtnuganda", "UGX", api_user="a-wallet==", api_key="shown-once", is_new_platform=True)
    with run(MtnMomo(settings)) as base_url, MtnCaller(base_url, "UGX", "mtnuganda") as caller:
        caller.user, caller.key = "a-wallet==", "shown-once"
        refused = caller.request_token("collection")
        assert (refused.status_code, refused.json()["error"]) == (
            400,
            "Invalid or missing X-Target-Environment header",
        )
        place = {"X-Target-Environment": "mtnuganda"}
        assert caller.request_token("collection", headers=place).status_code == 200
        assert (
            caller.request_token("collection", headers=place | {"User-Agent": "python-requests/2"}).status_code == 403
        )
