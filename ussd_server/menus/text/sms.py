"""Messages (SMS): how many parts a text is sent in."""

from __future__ import annotations

from ussd_server.menus.text.gsm7 import BASIC, measure

# 140 octets hold 160 septets or 70 UCS-2 characters; a part of several has a header of 6 octets (3GPP TS 23.040).
_ALONE = {"gsm7": 160, "ucs2": 70}
_OF_SEVERAL = {"gsm7": 153, "ucs2": 67}


def sms_parts(text: str) -> int:
    """Return the number of parts in which `text` is sent; each is paid for like a message.

    A character that takes two units is never divided between parts.
    """
    size = measure(text)
    if size.units <= _ALONE[size.encoding]:
        return 1
    parts, filled = 1, 0
    for character in text:
        is_double = character not in BASIC if size.encoding == "gsm7" else ord(character) > 0xFFFF
        units = 2 if is_double else 1
        if filled + units > _OF_SEVERAL[size.encoding]:
            parts, filled = parts + 1, 0
        filled += units
    return parts
