"""Every error on every path is JSON in the right envelope."""

from __future__ import annotations

from flask.testing import FlaskClient


def test_an_unknown_path_is_a_404_in_the_general_envelope(web: FlaskClient) -> None:
    reply = web.get("/nowhere")
    assert reply.status_code == 404
    assert set(reply.json) == {"success", "error", "message", "timestamp"}
    assert (reply.json["success"], reply.json["error"]) == (False, "NOT_FOUND")


def test_an_unknown_management_path_is_a_404_in_the_management_envelope(web: FlaskClient) -> None:
    reply = web.get("/api/clients/nowhere")
    assert (reply.status_code, reply.json) == (404, {"status": 404, "message": "Not found", "data": None})
    assert reply.headers["Cache-Control"] == "no-store"


def test_the_callers_request_id_comes_back_and_a_bad_one_is_replaced(web: FlaskClient) -> None:
    assert web.get("/nowhere", headers={"X-Request-Id": "mine-1.a_B"}).headers["X-Request-Id"] == "mine-1.a_B"
    for bad in ("", "a b", "x" * 65, "é"):
        assert web.get("/nowhere", headers={"X-Request-Id": bad}).headers["X-Request-Id"] not in ("", bad)
