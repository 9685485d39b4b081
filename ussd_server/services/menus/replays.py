"""Past conversations replayed through a draft, and where subscribers dropped off."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from ussd_server.context import RequestContext
from ussd_server.gateways.messages import Action
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.variables import ProviderStates
from ussd_server.menus.engine.navigator import STANDARD, DisplayOptions
from ussd_server.menus.tools.replay import PastConversation, PastTurn, replay
from ussd_server.metrics import count_drop_off
from ussd_server.models.ussd import Channel, UssdSession
from ussd_server.services.menus.documents import document_of, facts_of, usable_document
from ussd_server.services.menus.menus import MenuService, find_menu
from ussd_server.services.menus.messages import DropOffItem, DropOffView, ReplayItem, ReplayMenu, ReplayResult
from ussd_server.services.runtime import Runtime
from ussd_server.services.ussd.messages import DROPPED_OFF
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_id, new_id_floor

MOST_REPLAYED = 500
_MOST_COUNTED = 1_000
# How many of a client's newest sessions are searched for those of one menu.
_MOST_SEARCHED = 20_000
# Other requests run while the next sessions are read.
_READ_AT_ONCE = 10
_DROP_OFFS_OF = timedelta(days=7)
MOST_PLACES = 200
"""A process counts this many places; the nodes of all others count as `(other)`."""

Place = tuple[str, str, str, str]


class ReplayService:
    """Reads past conversations. Nothing is paid, called or written."""

    def __init__(self, runtime: Runtime, menus: MenuService) -> None:
        self._menus = menus
        self._clock = runtime.clock
        self._provider_states = ProviderStates(runtime.providers.takes_payments)

    def replay(self, request: ReplayMenu, context: RequestContext) -> tuple[ReplayItem, ...]:
        """Replay conversations through the draft of a menu; returns one item for each, at most 500.

        Sessions of another client or menu are NOT_FOUND items. Needs `ussd:read` as well, because it shows transcripts.
        Raises NOT_FOUND for an unknown menu, MENU_INVALID for a draft that cannot be walked, and INVALID_REQUEST unless
        there are either session ids or the beginning of a period.
        """
        context.require("ussd:read")
        draft = usable_document(self._menus.document(request.menu_id, None, context))
        if (request.session_ids is None) == (request.from_at is None):
            raise ServiceError(Code.INVALID_REQUEST, "Either session_ids or from is needed, and not both")
        menu_id = find_menu(request.menu_id, context).id
        if request.session_ids is None:
            assert request.from_at is not None
            ids = self._ids_of_period(menu_id, request.from_at, request.to_at, MOST_REPLAYED, context)
        else:
            ids = list(dict.fromkeys(request.session_ids))
        return tuple(self._items(draft, menu_id, ids, context))

    def drop_offs(self, menu_id: str, context: RequestContext) -> DropOffView:
        """Return how often each node of a menu was visited, and how often the session was abandoned there.

        Dials of the console's phone do not count.
        """
        context.require("ussd:read")
        context.require("menus:read")
        row_id = find_menu(menu_id, context).id
        since = self._clock.now() - _DROP_OFFS_OF
        ids = self._ids_of_period(row_id, since, None, _MOST_COUNTED, context)
        visits: Counter[str] = Counter()
        left: Counter[str] = Counter()
        rows = [row for row in _rows(ids, row_id, context) if not row.is_test]
        for row in rows:
            visits.update({turn["node"] for turn in row.turns})
            left[row.node] += row.status in DROPPED_OFF
        items = [DropOffItem(node, count, left[node], round(left[node] / count, 4)) for node, count in visits.items()]
        return DropOffView(len(rows), tuple(sorted(items, key=lambda item: (-item.drop_offs, item.node))))

    def _ids_of_period(
        self, menu_id: str, from_at: datetime, to_at: datetime | None, limit: int, context: RequestContext
    ) -> list[str]:
        """Return the ids of the newest sessions of a menu that began in a period, newest first."""
        which = (UssdSession.client_id == context.client_id) & (UssdSession.id >= new_id_floor(from_at))
        if to_at is not None:
            which &= UssdSession.id < new_id_floor(to_at)
        newest = (
            UssdSession.select(UssdSession.id, UssdSession.menu_id)
            .where(which)
            .order_by(UssdSession.id.desc())
            .limit(_MOST_SEARCHED)
        )
        return [row.id for row in newest.iterator() if row.menu_id == menu_id][:limit]

    def _items(
        self, draft: Document, menu_id: str, ids: Sequence[str], context: RequestContext
    ) -> Iterator[ReplayItem]:
        for at in range(0, len(ids), _READ_AT_ONCE):
            chunk = ids[at : at + _READ_AT_ONCE]
            rows = {row.id: row for row in _rows([each for each in chunk if is_id(each)], menu_id, context)}
            displays = _displays({row.channel_id for row in rows.values()})
            for session_id in chunk:
                row = rows.get(session_id)
                if row is None:
                    yield ReplayItem(session_id, ReplayResult.NOT_FOUND)
                else:
                    yield _replayed(draft, row, displays, self._provider_states)


def _displays(channel_ids: Collection[str | None]) -> dict[str | None, DisplayOptions]:
    """How these channels carry screens. None is a client program, which shows screens unchanged."""
    rows = Channel.select(Channel.id, Channel.settings).where(Channel.id.in_([each for each in channel_ids if each]))
    return {None: STANDARD, **{row.id: DisplayOptions.of(row.settings) for row in rows}}


def _replayed(
    draft: Document, row: UssdSession, displays: Mapping[str | None, DisplayOptions], providers: ProviderStates
) -> ReplayItem:
    past = PastConversation(
        document_of(row),
        facts_of(row, providers),
        row.language,
        [PastTurn(turn["entry"], turn["screen"], turn["node"], turn["action"] == Action.END) for turn in row.turns],
        row.transaction_id is not None,
        displays[row.channel_id],
    )
    difference = replay(draft, past)
    if difference is None:
        return ReplayItem(row.id, ReplayResult.SAME)
    result = ReplayResult.DEAD_END if difference.is_dead_end else ReplayResult.OTHER_SCREEN
    return ReplayItem(row.id, result, difference.turn, difference.was, difference.is_now)


def _rows(ids: Sequence[str], menu_id: str, context: RequestContext) -> Iterator[UssdSession]:
    """Yield the sessions of a client's menu among `ids`."""
    for at in range(0, len(ids), _READ_AT_ONCE):
        chunk = ids[at : at + _READ_AT_ONCE]
        yield from UssdSession.select().where(
            UssdSession.id.in_(chunk), UssdSession.client_id == context.client_id, UssdSession.menu_id == menu_id
        )


class DropOffs:
    """Counts drop-offs by code, menu, node and reason."""

    def __init__(self) -> None:
        self._counts: Counter[Place] = Counter()
        self._lock = threading.Lock()

    def count(self, row: UssdSession) -> None:
        """Count a session that was just ended, unless the console's phone dialled it."""
        if row.is_test:
            return
        menu = document_of(row).id
        place = (row.service_code, menu, row.node, str(row.end_reason))
        with self._lock:
            if place not in self._counts and len(self._counts) >= MOST_PLACES:
                place = ("(other)", "(other)", "(other)", str(row.end_reason))
            self._counts[place] += 1
        count_drop_off(*place)

    def counts(self) -> list[tuple[Place, int]]:
        with self._lock:
            return sorted(self._counts.items())
