"""The first screens after a dropped session: an offer to continue, or the outcome of a payment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ussd_server.menus.document.document import Document
from ussd_server.menus.document.nodes import InputNode, LanguageNode, ListNode, MenuNode, TextNode
from ussd_server.menus.engine.navigator import STANDARD, DisplayOptions, Navigator, SessionFacts, State, Turn
from ussd_server.menus.engine.views import Renderer
from ussd_server.menus.phrases import phrase
from ussd_server.values import grouped

TO_MENU = "0"


def reopen(document: Document, dropped: State, facts: SessionFacts, channel: DisplayOptions = STANDARD) -> Turn | None:
    """Continue a dropped session in a new one, as the document's `resume` says; None means start again.

    What only a PIN opened is not continued: the phone may be in other hands.

    The caller checks that the session was dropped recently enough, and after at least two turns.
    """
    place = resumption_node(document, dropped)
    if document.resume == "off" or dropped.is_past_pin or place is None or place[0] == document.start:
        return None
    name, page, back = place
    state = dropped._replace(
        facts=facts,
        node=name,
        page=page,
        back=back,
        attempts=0,
        confirmation=None,
        hops=0,
        stage=0,
        handover_entries=None,
        secrets={},
        kept={},
        ahead=None,
        interlude="resume" if document.resume == "confirm" else None,
    )
    navigator = Navigator(document, channel)
    return navigator.show(state) if state.interlude is None else _offer(navigator, state)


def resumption_node(document: Document, dropped: State) -> tuple[str, int, tuple[tuple[str, int], ...]] | None:
    """Return the nearest node, with page and stack, that is not a confirmation, secret or payment."""
    places = (*dropped.back, (dropped.node, dropped.page))
    for position in range(len(places) - 1, -1, -1):
        name, page = places[position]
        node = document.nodes.get(name)
        open_input = isinstance(node, InputNode) and not node.secret
        if open_input or isinstance(node, MenuNode | ListNode | TextNode | LanguageNode):
            return name, page, places[:position]
    return None


def announce(
    document: Document,
    facts: SessionFacts,
    language: str | None,
    outcome: str,
    amount_cents: int,
    *,
    kind: str = "collection",
    values: Mapping[str, Any] | None = None,
    channel: DisplayOptions = STANDARD,
) -> Turn:
    """Begin a session with the outcome of a payment: `succeeded`, `failed`, `pending` or `processing`.

    `processing` is for a step in progress, whose payment is not known yet: without the amount.

    The sentence names the menu's title as payee of a `collection` and payer of a `disbursement`, as far as it fits.
    """
    navigator = Navigator(document, channel)
    state = navigator.begin(facts, language, values)._replace(interlude="payment")
    spoken = state.language
    renderer = Renderer(document, spoken, channel.transliterates)
    budget = navigator.budget(state)
    if outcome in ("processing", "pending"):
        way_on = f"1. {document.navigation.label('continue', spoken)}"
    else:
        way_on = f"{TO_MENU} {phrase('menu', spoken)}"
    title = "" if kind == "transfer" else document.title.strip()
    for length in range(len(title), -1, -1):
        name = title[:length].strip()
        party = phrase("paid_by" if kind == "disbursement" else "paid_to", spoken, name=name) if name else ""
        sentence = phrase(f"payment_{outcome}", spoken, amount=grouped(amount_cents), party=party)
        text = f"{sentence}\n{way_on}"
        if budget.fits(renderer.write(text)):
            break
    return navigator.say(state, text, ends=False)


def leave_interlude(navigator: Navigator, state: State, typed: str) -> Turn:
    """Process an entry at a screen of this module."""
    if state.interlude == "resume" and typed == "1":
        return navigator.show(state._replace(interlude=None))
    if state.interlude == "resume" and typed != "2":
        return _offer(navigator, state)
    fresh = navigator.begin(state.facts, state.language, state.variables)
    return navigator.go_to(fresh, navigator.document.start)


def _offer(navigator: Navigator, state: State) -> Turn:
    language = state.language
    choices = f"1. {navigator.document.navigation.label('yes', language)}\n2. {phrase('start_again', language)}"
    return navigator.say(state, f"{phrase('resume', language)}\n{choices}", ends=False)
