"""Writes docs/API.md and docs/COMMANDS.md, the examples of docs/WEBHOOKS.md and the tables of docs/MENUS.md."""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import jinja2

from tests.documents.commands import write_commands
from tests.documents.menus import write_menu_tables
from tests.documents.operations import operations
from tests.documents.player import Player
from tests.documents.scenario import play
from tests.documents.steady import steady
from tests.documents.webhooks import write_examples
from tests.support.real_service.service import Service
from tests.support.stand_ins import airtel_settings
from ussd_server.services.webhooks.messages import EVENT_TYPES
from ussd_server.status import Code

REPOSITORY = Path(__file__).resolve().parents[2]
_PLACE = re.compile(r"(<!-- (?P<block>[a-z]+)(?P<tag>(?: \w+)?) -->\n).*?(<!-- end -->)", re.DOTALL)
# No request causes this one.
_NEVER_PLAYED = {Code.INTERNAL_ERROR}


def unplayed(player: Player) -> list[str]:
    """Return what the scenario lacks: operations without a reply, error codes without a refusal."""
    names = [operation.name for operation in operations(player.document) if operation.name not in player.played]
    codes = [code.error for code in Code if code not in _NEVER_PLAYED and code.error not in player.refused]
    return names + codes


def write_examples_of_calls(player: Player) -> None:
    """Fill the marked places of docs/API.md with the replies."""
    blocks: Any = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent), trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined, autoescape=False,
    ).get_template("blocks.jinja").make_module({
        "operations": operations(player.document), "played": player.played, "refused": player.refused,
        "management": player.management, "error_codes": list(Code), "event_types": EVENT_TYPES,
    })  # fmt: skip

    def filled(place: re.Match[str]) -> str:
        written = getattr(blocks, place["block"])(*place["tag"].split())
        return f"{place[1]}\n{written.strip()}\n\n{place[4]}"

    page = REPOSITORY / "docs/API.md"
    text = _PLACE.sub(filled, page.read_text(encoding="utf-8"))
    page.write_text(steady(re.sub(r"\n{3,}", "\n\n", text)), encoding="utf-8")


def main() -> None:
    write_menu_tables()
    write_commands()
    with tempfile.TemporaryDirectory() as folder:
        # A provider is switched on for the callbacks; the scenario sends it nothing.
        provider = airtel_settings("http://127.0.0.1:1")
        service = Service(Path(folder) / "data", USSD_ALLOW_PRIVATE_ADDRESSES="1", USSD_LOG_LEVEL="ERROR", **provider)
        try:
            player = Player(service)
            play(player)
        finally:
            service.stop()
    if forgotten := unplayed(player):
        sys.exit("Nothing was played for: " + ", ".join(forgotten))
    write_examples_of_calls(player)
    write_examples(REPOSITORY / "docs/WEBHOOKS.md")


if __name__ == "__main__":
    main()
