"""A client with menus of several sizes, a channel for each caller, and as many live sessions as are wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.house import opened_house
from ussd_server.messages.channels import AssignCode, BindCode, CreateChannel
from ussd_server.messages.clients import CreateClient
from ussd_server.messages.menus import NameMenu, SaveDraft
from ussd_server.messages.ussd import BeginSession
from ussd_server.models.base import database, is_postgres, unit_of_work
from ussd_server.models.ussd import UssdSession
from ussd_server.rpc.context import operator_call

CALLERS = 32
USUAL_NODES = 100
_CHOICES = 8
# A statement of the service may take five seconds and no longer.
_AT_ONCE = 5000
# So many digits as are left of an id, and of a phone number.
_FIRST_NUMBER, _FIRST_PHONE = 100_000_000_000, 10_000_000


class Switchboard:
    """What the service must know before phones can call."""

    def __init__(self, folder: Path, settings: Mapping[str, str], sizes: Iterable[int]) -> None:
        self._folder, self._settings = folder, settings
        self._live = 0
        with opened_house(folder, settings) as house:
            self._client_id = house.clients.create(CreateClient("Bench"), operator_call()).client_id
            call = operator_call(self._client_id)
            for nodes in sizes:
                menu_id = f"places-{nodes}"
                house.menus.save_draft(SaveDraft(menu_id, menu_of(nodes)), call)
                house.menus.publish(NameMenu(menu_id), call)
                house.channels.assign_code(AssignCode(self.code_of(nodes), self._client_id), call)
                house.menus.bind_code(BindCode(self.code_of(nodes), menu_id), call)
            # A channel has a limit of its own, which one phone company alone would not reach.
            wish = CreateChannel("africastalking", self._client_id)
            self.paths = [house.channels.create(wish, call).gateway_path for _ in range(CALLERS)]

    def code_of(self, nodes: int) -> str:
        """The code that the menu of that size answers."""
        return f"*{nodes}#"

    def keep_live(self, count: int) -> None:
        """Let there be `count` sessions under way beside those of the callers."""
        if count > self._live:
            with opened_house(self._folder, self._settings) as house:
                call = operator_call(self._client_id)
                begun = house.ussd.begin(BeginSession("+256700000000", self.code_of(USUAL_NODES)), call)
                _multiply(begun.session_id, self._live, count)
        self._live = count


def menu_of(nodes: int) -> dict[str, Any]:
    """A menu of that many nodes, in which every choice leads to another node and nine ends the call."""
    places = nodes - 1
    finish = {"key": "9", "label": {"en": "Finish"}, "goto": "end"}
    documents: dict[str, Any] = {"end": {"type": "end", "text": {"en": "Thank you"}}}
    for place in range(places):
        following = [(place * _CHOICES + choice) % places for choice in range(1, _CHOICES + 1)]
        options = [{"label": {"en": f"To {goal}"}, "goto": f"place{goal}"} for goal in following]
        documents[f"place{place}"] = {"type": "menu", "text": {"en": f"Place {place}"}, "options": [*options, finish]}
    return {
        "id": f"places-{nodes}", "title": "Places", "start": "place0", "default_language": "en", "languages": ["en"],
        "vars": {}, "nodes": documents,
    }  # fmt: skip


def _multiply(session_id: str, first: int, last: int) -> None:
    """Copy a session, for other phones, until `last` of them have been made."""
    identity = f"'01900000-0000-7000-8000-' || ({_FIRST_NUMBER} + n.i)"
    values = {name: f"s.{name}" for name in UssdSession._meta.columns} | {
        "id": f"CAST({identity} AS uuid)" if is_postgres() else identity,
        "phone_number": f"'+2567' || ({_FIRST_PHONE} + n.i)",
    }
    for begin in range(first, last, _AT_ONCE):
        end = min(begin + _AT_ONCE, last)
        with unit_of_work():
            database.execute_sql(
                f"WITH RECURSIVE n(i) AS (SELECT {begin} UNION ALL SELECT i + 1 FROM n WHERE i < {end - 1}) "
                f"INSERT INTO ussd_sessions ({', '.join(values)}) "
                f"SELECT {', '.join(values.values())} FROM n, ussd_sessions s WHERE s.id = '{session_id}'"
            )
    database.execute_sql("ANALYZE")
