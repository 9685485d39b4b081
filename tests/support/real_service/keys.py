"""More keys for a journey that calls oftener than one key may."""

from __future__ import annotations

from tests.support.real_service.service import Service


def fresh_keys(service: Service, number: int) -> list[dict[str, str]]:
    """The headers of so many new keys of the demonstration's client."""
    who = {name: service.demonstration[name] for name in ("email", "password")}
    token = service.call("POST", "/api/clients/login", who)[1]["data"]["access_token"]
    bearer = {"Authorization": f"Bearer {token}"}
    made = [service.call("POST", "/api/clients/api-keys", {}, bearer)[1]["data"] for _ in range(number)]
    return [{"x-api-key": key["apikey"], "x-api-secret": key["apisecret"]} for key in made]
