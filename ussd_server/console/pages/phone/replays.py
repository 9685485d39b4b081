"""Recorded sessions replayed through the draft of a menu: which screens would differ."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import timedelta

from flask import Response

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.links import link_to
from ussd_server.console.tables import Column, DataTable, TableFilter, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.services.menus.messages import ReplayItem, ReplayMenu, ReplayResult
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA

_MOST_EXAMPLES = 5
_RESULTS = {
    ReplayResult.SAME: "same screens",
    ReplayResult.OTHER_SCREEN: "another screen",
    ReplayResult.DEAD_END: "dead end",
    ReplayResult.NOT_FOUND: "deleted since",
}
_COLUMNS = (
    Column("session_id", "Session", "id", link=lambda item: link_to("session", item.session_id)),
    Column("result", "Result"),
    Column("turn", "After entry", "number"),
    Column("was", "Was"),
    Column("is", "Would be", value=lambda item: item.is_now),
)


@dataclass(frozen=True, slots=True)
class ShownDifference:
    """Sessions whose first difference is the same: their number, and the ids of some."""

    result: str
    turn: int
    was: str
    is_now: str
    count: int
    session_ids: list[str]


@console.page("GET", "/menus/<menu_id>/replay", needs="menus:read")
def replay_sessions(context: RequestContext, menu_id: str) -> Response:
    """The newest sessions of a period in the draft, those that would go alike together. Nothing is paid or called."""
    context.require("ussd:read", "Your role does not allow this.")
    menu = services().menus.get(menu_id, context)
    begin = TableFilter("from", "Began from", input_type="datetime-local")
    end = TableFilter("to", "Before", input_type="datetime-local")
    items: tuple[ReplayItem, ...] = ()
    error: ServiceError | None = None
    try:
        from_at = forms.local_moment(begin.chosen)
        if from_at is not None:
            wanted = ReplayMenu(menu_id, from_at=from_at, to_at=forms.local_moment(end.chosen))
            items = services().replays.replay(wanted, context)
    except ServiceError as refusal:
        if refusal.code not in (Code.INVALID_REQUEST, Code.MENU_INVALID):
            raise
        error = refusal
    table = DataTable(
        gettext("Sessions in the draft of %(menu_id)s", menu_id=menu_id), _COLUMNS, items, filters=(begin, end)
    )
    counts = Counter(item.result for item in items)
    yesterday = services().clock.now().astimezone(KAMPALA) - timedelta(days=1)
    response = show_table(
        "console/menus/replay.html",
        table,
        menu=menu,
        error=error,
        differences=_differences(items),
        counts={title: counts[result] for result, title in _RESULTS.items() if counts[result]},
        suggested_from=yesterday.strftime("%Y-%m-%dT%H:%M"),
    )
    if error:
        response.status_code = error.code.http_status
    return response


def _differences(items: tuple[ReplayItem, ...]) -> list[ShownDifference]:
    """The differences, the most frequent first."""
    groups: dict[tuple[str, int, str, str], list[str]] = defaultdict(list)
    for item in items:
        if item.turn is not None:
            key = (_RESULTS[item.result], item.turn, item.was or "", item.is_now or "")
            groups[key].append(item.session_id)
    shown = [ShownDifference(*key, len(ids), ids[:_MOST_EXAMPLES]) for key, ids in groups.items()]
    return sorted(shown, key=lambda each: -each.count)
