"""The USSD menu that is measured."""

from __future__ import annotations

from typing import Any

NODES = 100
CODE = "*100#"
CHANNELS = 32
_CHOICES = 8


def places_menu() -> dict[str, Any]:
    """Return a menu of a hundred nodes, in which eight choices lead to other nodes and the ninth ends the session."""
    places = NODES - 1
    finish = {"key": "9", "label": {"en": "Finish"}, "goto": "end"}
    nodes: dict[str, Any] = {"end": {"type": "end", "text": {"en": "Thank you"}}}
    for place in range(places):
        following = [(place * _CHOICES + choice) % places for choice in range(1, _CHOICES + 1)]
        options = [{"label": {"en": f"To {goal}"}, "goto": f"place{goal}"} for goal in following]
        nodes[f"place{place}"] = {"type": "menu", "text": {"en": f"Place {place}"}, "options": [*options, finish]}
    return {"id": "places", "title": "Places", "start": "place0", "languages": ["en"], "vars": {}, "nodes": nodes}
