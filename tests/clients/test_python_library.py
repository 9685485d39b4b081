"""The Python library: repeats, waiting, pages, amounts, errors and webhooks, against a server that misbehaves."""

from __future__ import annotations

import ast
import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from standardwebhooks import Webhook
from werkzeug import Request, Response

import ussd_client
from tests.documents.libraries import CLIENTS
from ussd_client import UssdClient, transport

SECRET = "whsec_" + "c2VjcmV0" * 4
ORDER: Any = {"type": "collection", "phone_number": "+256770000000", "amount": 5000, "reference": "order-1"}


class Script:
    """Replies one after the other, and the requests that they answered; the last reply is repeated."""

    def __init__(self, server: HTTPServer) -> None:
        self.replies: list[Response] = []
        self.requests: list[Request] = []
        server.expect_request(re.compile(".*")).respond_with_handler(self._answer)

    def says(self, status: int, body: Any, **headers: str) -> Script:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.replies.append(Response(json.dumps(body), status, named, content_type="application/json"))
        return self

    def succeeds(self, data: Any) -> Script:
        return self.says(200, {"success": True, "data": data, "message": "Done"})

    def refuses(self, status: int, code: str, **headers: str) -> Script:
        return self.says(status, {"success": False, "error": code, "message": "No."}, **headers)

    def _answer(self, request: Request) -> Response:
        request.get_data()
        self.requests.append(request)
        return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


@pytest.fixture
def script(httpserver: HTTPServer) -> Script:
    return Script(httpserver)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the library, which take no time here."""
    taken: list[float] = []
    monkeypatch.setattr(transport.time, "sleep", taken.append)
    return taken


@pytest.fixture
def client(httpserver: HTTPServer, pauses: list[float]) -> UssdClient:
    return UssdClient(httpserver.url_for("/"), "key", "secret", timeout=20)


def payment(status: str, amount: Any = 5000) -> dict[str, Any]:
    return {"transaction_id": "T1", "status": status, "amount": amount}


def test_a_limited_call_is_repeated_after_the_seconds_that_the_service_names(
    client: UssdClient, script: Script, pauses: list[float]
) -> None:
    script.refuses(429, "RATE_LIMIT_EXCEEDED", Retry_After="7").succeeds({"available": 5})
    assert client.get_balance()["available"] == 5
    assert pauses == [7.0]


def test_a_limit_that_lasts_longer_than_the_patience_is_an_error_at_once(
    client: UssdClient, script: Script, pauses: list[float]
) -> None:
    script.refuses(429, "RATE_LIMIT_EXCEEDED", Retry_After="3600", X_Request_Id="R1")
    with pytest.raises(ussd_client.RateLimitError) as caught:
        client.get_balance()
    assert (caught.value.retry_after, caught.value.request_id, pauses) == (3600, "R1", [])


def test_a_service_that_asks_for_no_pause_is_not_called_in_a_tight_loop(
    client: UssdClient, script: Script, pauses: list[float]
) -> None:
    for _ in range(4):
        script.refuses(429, "RATE_LIMIT_EXCEEDED", Retry_After="0")
    script.succeeds({"available": 5})
    client.get_balance()
    assert len(pauses) == 4
    assert pauses[0] >= 0.5
    assert pauses[3] >= 4


def test_a_payment_is_repeated_with_its_reference_when_the_service_is_away(
    client: UssdClient, script: Script, pauses: list[float]
) -> None:
    script.refuses(503, "SERVICE_UNAVAILABLE", Retry_After="2").refuses(502, "TRANSACTION_FAILED")
    script.succeeds(payment("succeeded"))
    assert client.create_transaction(ORDER)["status"] == "succeeded"
    assert [json.loads(each.get_data())["reference"] for each in script.requests] == ["order-1"] * 3
    assert pauses[0] == 2.0
    assert 0 < pauses[1] <= 2.0


def test_a_call_whose_repeat_is_not_recognised_is_sent_once(
    client: UssdClient, script: Script, pauses: list[float]
) -> None:
    script.refuses(503, "SERVICE_UNAVAILABLE", Retry_After="1")
    for call in (lambda: client.rotate_webhook("W1"), lambda: client.delete_webhook("W1")):
        with pytest.raises(ussd_client.UnavailableError):
            call()
    assert (len(script.requests), pauses) == (2, [])


def test_a_reply_that_breaks_says_that_the_outcome_is_unknown(client: UssdClient, script: Script) -> None:
    script.replies.append(Response("{", 200, content_type="application/json"))
    with pytest.raises(ussd_client.UnreachableError):
        client.test_webhook("W1")
    script.replies[:] = [Response("<h1>502</h1>", 502)]
    with pytest.raises(ussd_client.UnavailableError) as caught:
        client.test_webhook("W1")
    assert (caught.value.code, caught.value.status) == ("UNKNOWN", 502)


def test_no_connection_is_an_error_of_its_own(pauses: list[float]) -> None:
    with pytest.raises(ussd_client.UnreachableError):
        UssdClient("http://127.0.0.1:1", "key", "secret", patience=3).get_balance()
    assert len(pauses) >= 2


def test_a_redirect_is_refused_and_the_secret_goes_nowhere_else(client: UssdClient, script: Script) -> None:
    script.says(302, {}, Location="/elsewhere")
    with pytest.raises(ussd_client.ApiError):
        client.get_balance()
    assert [each.path for each in script.requests] == ["/api/balance"]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, ussd_client.RequestError),
        (401, ussd_client.AuthenticationError),
        (403, ussd_client.PermissionDeniedError),
        (404, ussd_client.NotFoundError),
        (413, ussd_client.RequestError),
    ],
)
def test_a_refusal_is_an_exception_with_code_and_request_id(
    client: UssdClient, script: Script, status: int, error: type[ussd_client.ApiError]
) -> None:
    script.refuses(status, "SOME_CODE", X_Request_Id="R7")
    with pytest.raises(error) as caught:
        client.get_transaction("T1")
    assert (caught.value.code, caught.value.request_id, caught.value.status) == ("SOME_CODE", "R7", status)
    assert len(script.requests) == 1


def test_amounts_are_whole_numbers_or_decimals_and_never_floats(client: UssdClient, script: Script) -> None:
    script.succeeds(payment("succeeded", 5000.1))
    paid = client.create_transaction({**ORDER, "amount": Decimal("5000.10")})
    assert paid["amount"] == Decimal("5000.1")
    assert json.loads(script.requests[0].get_data())["amount"] == "5000.10"
    with pytest.raises(TypeError, match="amount"):
        client.create_transaction({**ORDER, "amount": 5000.1})


def test_paying_waits_until_the_payment_is_final(client: UssdClient, script: Script, pauses: list[float]) -> None:
    script.succeeds(payment("created")).succeeds(payment("pending")).succeeds(payment("ambiguous"))
    script.succeeds(payment("succeeded"))
    assert client.pay(ORDER)["status"] == "succeeded"
    assert [each.args.get("wait") for each in script.requests] == ["25", None, "25", "25"]
    assert pauses == [1.0]


def test_a_payment_that_does_not_become_final_is_reported_as_open(client: UssdClient, script: Script) -> None:
    script.succeeds(payment("ambiguous"))
    with pytest.raises(ussd_client.StillOpenError) as caught:
        client.wait_until_final("T1", seconds=0)
    assert caught.value.transaction["status"] == "ambiguous"


def test_iterating_reads_every_page(client: UssdClient, script: Script) -> None:
    script.succeeds({"items": [{"id": "1"}, {"id": "2"}], "next_cursor": "C"})
    script.succeeds({"items": [{"id": "3"}], "next_cursor": None})
    assert [each["id"] for each in client.iterate_events(type="webhook.test", from_="2026-11-20T00:00:00Z")] == list(
        "123"
    )
    assert [each.args.get("cursor") for each in script.requests] == [None, "C"]
    assert {each.args["from"] for each in script.requests} == {"2026-11-20T00:00:00Z"}


def test_an_id_cannot_lead_to_another_path(client: UssdClient, script: Script) -> None:
    script.succeeds({})
    client.bind_code("*165#", {"menu_id": "shop"})
    client.get_event("../x?y")
    assert [each.environ["REQUEST_URI"] for each in script.requests] == [
        "/api/ussd/codes/%2A165%23",
        "/api/events/..%2Fx%3Fy",
    ]
    for name in ("", ".", ".."):
        with pytest.raises(ValueError, match="no id"):
            client.get_event(name)


def test_a_file_is_read_in_parts(client: UssdClient, script: Script) -> None:
    script.replies.append(Response("at,debit\r\n" * 20_000, 200, content_type="text/csv"))
    parts = list(client.get_statement_csv(from_="2026-11-20T00:00:00Z"))
    assert len(parts) > 1
    assert b"".join(parts).count(b"\n") == 20_000
    assert script.requests[0].headers["Accept"] == "text/csv"


def test_a_genuine_webhook_is_returned_and_any_other_is_refused() -> None:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    body = b'{"type":"transaction.succeeded","data":{"amount":5000.5}}'
    headers = {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(int(at.timestamp())),
        "Webhook-Signature": "v1,bm9uZQ== " + Webhook(SECRET).sign("msg_1", at, body.decode()),
    }

    def verify(secret: str = SECRET, body: bytes = body, late: float = 0, **changed: str) -> Any:
        given = headers | {name.replace("_", "-"): value for name, value in changed.items()}
        return ussd_client.verify_webhook(secret, given, body, now=at.timestamp() + late)

    assert verify()["data"]["amount"] == Decimal("5000.5")
    assert verify(late=-300)["type"] == "transaction.succeeded"
    for refused in (
        {"secret": "whsec_" + "b3RoZXIh" * 4},
        {"body": body + b" "},
        {"late": 301},
        {"late": -301},
        {"Webhook_Id": "msg_2"},
        {"Webhook_Timestamp": "soon"},
        {"Webhook_Signature": "v1,é"},
    ):
        with pytest.raises(ussd_client.WebhookError):
            verify(**refused)
    with pytest.raises(ussd_client.WebhookError):
        ussd_client.verify_webhook(SECRET, {}, body)
    with pytest.raises(ValueError, match="empty"):
        verify(secret="whsec_")


def test_the_library_needs_nothing_that_python_3_10_does_not_have() -> None:
    newer = {"NotRequired", "Required", "Self", "assert_never", "UTC", "StrEnum", "ExceptionGroup", "tomllib"}
    for path in (CLIENTS / "python/ussd_client").glob("*.py"):
        # Imports of a module itself run; those below TYPE_CHECKING do not.
        for statement in ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 10)).body:
            names = {each.name for each in getattr(statement, "names", ()) if isinstance(each, ast.alias)}
            assert not names & newer, path.name
