"""Endpoints for monitoring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version

import pytest
from flask.testing import FlaskClient

from ussd_server.app import create_app
from ussd_server.bootstrap import build_services
from ussd_server.database.unit_of_work import close_connections
from ussd_server.settings import Settings


@pytest.fixture
def ill(settings: Settings, request: pytest.FixtureRequest) -> Iterator[FlaskClient]:
    """A caller of a service with settings that make it unhealthy."""
    services = build_services(
        replace(settings, **{name: value.format(settings) for name, value in request.param.items()})
    )
    yield create_app(services).test_client()
    services.close()
    close_connections()


def test_a_process_that_answers_is_alive(web: FlaskClient) -> None:
    assert web.get("/health/live").json["data"] == {"status": "alive", "version": version("ussd-server")}


def test_a_service_with_all_its_parts_is_ready(web: FlaskClient) -> None:
    reply = web.get("/health/ready")
    assert (reply.status_code, reply.json["data"]) == (200, {"status": "ready", "database": "up", "redis": "up"})


@pytest.mark.parametrize("ill", [{"database_url": "postgresql://nobody@127.0.0.1:1/none"}], indirect=True)
def test_without_a_database_it_is_alive_but_not_ready(ill: FlaskClient) -> None:
    assert ill.get("/health/live").status_code == 200
    reply = ill.get("/health/ready")
    assert (reply.status_code, reply.json["error"]) == (503, "SERVICE_UNAVAILABLE")
    assert reply.json["message"] == "The database is away"
    assert int(reply.headers["Retry-After"]) > 0


@pytest.mark.parametrize("ill", [{"database_url": "sqlite:///{0.data_dir}/empty.db"}], indirect=True)
def test_before_the_migrations_it_is_not_ready(ill: FlaskClient) -> None:
    reply = ill.get("/health/ready")
    assert (reply.status_code, reply.json["message"]) == (503, "The database is not migrated")


@pytest.mark.parametrize("ill", [{"redis_url": "unix:///nowhere/valkey.sock"}], indirect=True)
def test_without_redis_it_is_ready_and_says_so(ill: FlaskClient) -> None:
    reply = ill.get("/health/ready")
    assert (reply.status_code, reply.json["data"]["redis"]) == (200, "away")


def test_calls_are_counted_by_route_and_never_by_path(web: FlaskClient) -> None:
    web.get("/ussd/africastalking/a-secret")
    counted = web.get("/metrics")
    assert counted.headers["Content-Type"].startswith("text/plain")
    assert 'ussd_calls_total{code="NOT_FOUND",endpoint="gateways.take_step",status="404"}' in counted.text
    assert "ussd_database_up 1.0" in counted.text
    assert "a-secret" not in counted.text
