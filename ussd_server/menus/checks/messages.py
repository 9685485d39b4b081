"""The check of messages: none takes more than three parts, in any language, with all variables at their maximum."""

from __future__ import annotations

from collections.abc import Iterator

from ussd_server.menus.document.bounds import WorkBudget
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.findings import Finding, error
from ussd_server.menus.document.nodes import SmsNode
from ussd_server.menus.text.gsm7 import sms_parts, transliterate

MOST_PARTS = 3
_CHARACTERS_A_UNIT = 20
# A shorter value may move a character of two units to the end of a part, which it then leaves empty: at most one unit
# in each part but the last.
_RESERVE = " " * (MOST_PARTS - 1)


def find_long_messages(document: Document, work: WorkBudget) -> Iterator[Finding]:
    """Find messages that could take more than three parts. Each part is paid for."""
    for name, node in document.nodes.items():
        if isinstance(node, SmsNode):
            for language in document.languages:
                widest = transliterate(node.text.in_language(language).widest)
                work.spend(1 + len(widest) // _CHARACTERS_A_UNIT)
                parts = sms_parts(widest + _RESERVE)
                if parts > MOST_PARTS:
                    message = (
                        f"the message could take {parts} parts in `{language}`, and {MOST_PARTS} are allowed; shorten "
                        "the text, or give its variables a smaller max_len"
                    )
                    yield error("parts", message, name, ("text", language))
