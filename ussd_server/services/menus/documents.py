"""The documents of menus: of requests, of drafts that can be walked, and published versions, which never change.

What takes long with a large document (reading it, checking, drawing and comparing it) runs in a native thread, beside
other requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from difflib import unified_diff
from functools import lru_cache, partial
from itertools import chain
from typing import Any

from ussd_server.menus.checks.check import check
from ussd_server.menus.checks.references import find_unknown_variables
from ussd_server.menus.checks.width_proof import FullestScreen, fullest_screens
from ussd_server.menus.document.bounds import WorkBudget, find_excess
from ussd_server.menus.document.document import Document, parse, read
from ussd_server.menus.document.findings import Finding, Report, Spelling, error, warning
from ussd_server.menus.document.nodes import HandoverNode, HttpNode, PayNode, PinNode
from ussd_server.menus.document.variables import ProviderStates
from ussd_server.menus.engine.navigator import SessionFacts
from ussd_server.menus.source.texts import read_text
from ussd_server.menus.source.yaml_text import Places, SourceError, json_places, write_yaml
from ussd_server.menus.tools.diagram import Graph, draw, graph
from ussd_server.menus.tools.node_parts import names_in
from ussd_server.models.ussd import Menu, MenuVersion, UssdSession
from ussd_server.outbound.addresses import AddressGuard, AddressRefusedError
from ussd_server.services.menus.messages import CheckMenu, SaveDraft
from ussd_server.status import Code, ServiceError
from ussd_server.threads import in_native_thread
from ussd_server.values import kampala_day

# Lines of one version times lines of the other. A comparison may take a second for it: its time grows with the square.
_MOST_COMPARED = 4000 * 4000


def find_version(menu_id: str, version: int) -> MenuVersion | None:
    return MenuVersion.get_or_none(MenuVersion.menu_id == menu_id, MenuVersion.version == version)


@lru_cache(maxsize=512)
def published_document(menu_id: str, version: int) -> Document:
    """Return a published version, cached because versions never change. `menu_id` is the row's id."""
    row = find_version(menu_id, version)
    assert row is not None
    return parse(row.document)


def document_of(row: UssdSession) -> Document:
    """Return the document that a session uses until its end."""
    return published_document(row.menu_id, row.menu_version)


def facts_of(row: UssdSession, providers: ProviderStates, has_pin: bool | None = None) -> SessionFacts:
    today = kampala_day(row.created_at)
    return SessionFacts(
        row.phone_number, row.service_code, row.network, row.id, today, has_pin, providers.of(row.client_id)
    )


@lru_cache(maxsize=256)
def reads_pin(menu_id: str, version: int) -> bool:
    """Whether a version of a menu asks for `subscriber.has_pin`."""
    nodes = published_document(menu_id, version).nodes.values()
    return any(name.scope == "subscriber" for node in nodes for _, name in names_in(node))


def usable_document(raw: dict[str, Any]) -> Document:
    """Read a draft. Raises MENU_INVALID with the first error that keeps it from being walked."""
    finding = next(find_excess(raw), None)
    if finding is None:
        document, problems = in_native_thread(read, raw, pool="documents")
        finding = next(_unbearable(document, problems), None)
        if finding is None:
            return document
    raise ServiceError(Code.MENU_INVALID, sentence_of(finding))


def sentence_of(finding: Finding) -> str:
    return f"{finding.node or 'document'}: {finding.message}"


def _unbearable(document: Document, problems: tuple[Finding, ...]) -> Iterator[Finding]:
    yield from problems
    yield from find_unknown_variables(document, Spelling())
    if document.start not in document.nodes:
        yield Finding("error", "goto", f"`start` is `{document.start}`, and there is no such node")


def paying_node(raw: dict[str, Any]) -> str | None:
    """The first node that sends money, None in a menu that sends none. A collection brings money."""
    document, _ = in_native_thread(read, raw, pool="documents")
    sends = (name for name, node in document.nodes.items() if isinstance(node, PayNode) and node.kind != "collection")
    return next(sends, None)


def _refused_addresses(document: Document, guard: AddressGuard) -> Iterator[Finding]:
    for name, node in document.nodes.items():
        if isinstance(node, HandoverNode):
            url = node.url
        elif isinstance(node, HttpNode):
            # The host is literal; variables only occur in the path after it.
            url = "".join(part if isinstance(part, str) else "0" for part in node.url.parts)
        else:
            continue
        try:
            guard.check_url(url)
        except AddressRefusedError as refusal:
            yield error("address", str(refusal), name)


def pin_lengths_of_others(menu_id: str, raw: dict[str, Any], client_id: str) -> dict[str, int]:
    """The digits of PINs in each other published menu of a client, by its name; empty for a menu that asks for none."""
    nodes = raw.get("nodes")
    is_asking = isinstance(nodes, dict) and any(
        isinstance(node, dict) and node.get("type") == "pin" for node in nodes.values()
    )
    if not is_asking:
        return {}
    others = Menu.select(Menu.id, Menu.name, Menu.published_version).where(
        Menu.client_id == client_id, Menu.name != menu_id, Menu.published_version.is_null(False)
    )
    return {
        other.name: node.length
        for other in others
        for node in published_document(other.id, other.published_version).nodes.values()
        if isinstance(node, PinNode)
    }


def _other_pin_lengths(document: Document, lengths: Mapping[str, int]) -> Iterator[Finding]:
    """The `pin` nodes whose length is another one than in another menu: a subscriber has one PIN with a client."""
    for name, node in document.nodes.items():
        for other, length in lengths.items():
            if isinstance(node, PinNode) and node.length != length:
                message = f"the PIN has {node.length} digits here and {length} in the menu `{other}`"
                yield warning("pin", message, name)


def check_document(
    raw: dict[str, Any],
    places: Callable[[], Places] | None,
    guard: AddressGuard,
    session_life_seconds: int,
    pin_lengths: Mapping[str, int],
) -> Report:
    """Check a document by every rule (`menus.checks.check`), with the addresses that `guard` refuses.

    `pin_lengths` are those of the client's other menus.
    """
    judge = partial(
        check,
        allow_plain_http=guard.takes_plain_http,
        session_life_seconds=session_life_seconds,
        also=lambda document: chain(_refused_addresses(document, guard), _other_pin_lengths(document, pin_lengths)),
        places=places,
    )
    return in_native_thread(judge, raw, pool="documents")


def graph_of(raw: dict[str, Any]) -> tuple[Graph, str]:
    """The nodes and edges of a document, and their drawing as SVG."""
    return in_native_thread(lambda: (graph(document := read(raw)[0]), draw(document)), pool="documents")


def drawing_of(raw: dict[str, Any], notes: Mapping[str, str], marks: Mapping[str, str]) -> str:
    """The SVG of a document with notes and marks at nodes (`menus.tools.diagram.draw`)."""
    return in_native_thread(lambda: draw(read(raw)[0], notes, marks), pool="documents")


def fullest_screens_of(raw: dict[str, Any]) -> list[FullestScreen]:
    """The fullest screen of each language on each network.

    Raises MENU_INVALID as `usable_document`, and WorkExceededError when they are too many.
    """
    return in_native_thread(fullest_screens, usable_document(raw), WorkBudget(), pool="documents")


def yaml_of(raw: dict[str, Any]) -> str:
    return in_native_thread(write_yaml, raw, pool="documents")


def difference_of(old: list[str], new: list[str]) -> tuple[str, ...]:
    """The lines of a unified diff without its two header lines: none of equal texts, all of long ones."""
    if old != new and len(old) * len(new) > _MOST_COMPARED:
        return (*(f"-{line}" for line in old), *(f"+{line}" for line in new))
    return in_native_thread(lambda: tuple(unified_diff(old, new, lineterm=""))[2:], pool="documents")


def read_source(request: SaveDraft | CheckMenu) -> tuple[dict[str, Any], Callable[[], Places] | None]:
    """Return the document of a request, and a function that finds the positions of its fields."""
    source, document = request.source, request.document
    if source is None:
        return _named(document or {}, request.menu_id), None
    if document is not None:
        return _named(document, request.menu_id), lambda: json_places(source.text)
    try:
        document, places = in_native_thread(partial(read_text, source.text, is_yaml=source.is_yaml), pool="documents")
    except SourceError as error:
        raise ServiceError(Code.INVALID_REQUEST, str(error)) from None
    return _named(document, request.menu_id), lambda: places


def _named(document: dict[str, Any], menu_id: str) -> dict[str, Any]:
    if document.get("id", menu_id) != menu_id:
        raise ServiceError(Code.INVALID_REQUEST, "id: Must be the menu id of the path.")
    return {"id": menu_id, **document}
