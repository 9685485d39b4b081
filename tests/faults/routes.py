"""The routes of the application, each with a path of real objects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

from flask import Flask
from werkzeug.routing import Rule

from tests.faults.seeded_client import SeededClient
from ussd_server.api.endpoints import EndpointSpec


def stated_rules(app: Flask) -> Iterator[Rule]:
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: (route_ends_everything(rule), rule.rule)):
        if hasattr(app.view_functions[rule.endpoint], "route"):
            yield rule


def routes_with_bodies(app: Flask, seeded_client: SeededClient) -> Iterator[tuple[Rule, str, str]]:
    for rule in stated_rules(app):
        if route_of(app, rule).body is not None:
            for method in methods_of(rule):
                yield rule, method, filled(rule, seeded_client)


def route_of(app: Flask, rule: Rule) -> EndpointSpec:
    route: EndpointSpec = app.view_functions[rule.endpoint].route  # type: ignore[attr-defined]
    return route


def route_ends_everything(rule: Rule) -> bool:
    """Whether a call that is accepted ends the caller's own login, or waits for minutes of tries."""
    return rule.rule in ("/api/clients/logout", "/api/clients/login")


def methods_of(rule: Rule) -> list[str]:
    return sorted(set(rule.methods or ()) - {"HEAD", "OPTIONS"})


def filled(rule: Rule, seeded_client: SeededClient) -> str:
    return re.sub("<(.*?)>", lambda found: quote(seeded_client.ids[found[1]]), rule.rule)
