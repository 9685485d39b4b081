"""Past conversations with a PIN walked again: the PIN is not known, and every screen is found."""

from __future__ import annotations

from pathlib import Path

from ussd_server.menus.document.document import Document, parse
from ussd_server.menus.engine.navigator import MASK, STANDARD, SessionFacts
from ussd_server.menus.source.texts import read_menu_file
from ussd_server.menus.tools.replay import PastConversation, PastTurn, replay
from ussd_server.menus.tools.simulator import Simulator, World

SAVINGS = Path(__file__).parents[3] / "ussd_server" / "menus" / "examples" / "savings_group.yaml"
FACTS = SessionFacts("+256772123456", "*165#", "64110", "past")


def held(document: Document, *entries: str, **pins: str) -> PastConversation:
    """A conversation whose entries of four digits were PINs."""
    phone = Simulator(document, FACTS, World(pins={f"+{number[1:]}": pin for number, pin in pins.items()}))
    phone.dial()
    turns = [PastTurn("", phone.screen.text, phone.screen.node, phone.screen.ends)]
    for entry in entries:
        phone.send(entry)
        shown = MASK if len(entry) == 4 else entry
        turns.append(PastTurn(shown, phone.screen.text, phone.screen.node, phone.screen.ends))
    return PastConversation(document, FACTS, "en", turns, False, STANDARD)


def test_a_conversation_with_pins_shows_the_same_screens_when_it_is_walked_again() -> None:
    document = parse(read_menu_file(SAVINGS)[0])
    chosen = ("3", "1234", "2580", "9999", "2580", "2580", "1", "8", "2580", "1397", "1397", "1")
    assert replay(document, held(document, *chosen)) is None
    wrong = ("3", "0000", "0000", "2580", "1", "3", "0000", "0000", "0000")
    assert replay(document, held(document, *wrong, n256772123456="2580")) is None
