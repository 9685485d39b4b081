"""Replaces what differs from run to run by fixed values: ids, times, keys, secrets, marks."""

from __future__ import annotations

import re
from itertools import count

_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOMENT = r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:.]+(?:Z|\+00:00)"
_NOW, _LATER = "2026-11-20T08:15:30.123Z", "2026-11-20T09:15:30.123Z"
_ALWAYS = (
    (rf'("(?:\w*expires_at|next_\w+_at)": "){_MOMENT}', rf"\g<1>{_LATER}"),
    (_MOMENT, _NOW),
    (r'("day": ")20[0-9]{2}-[0-9]{2}-[0-9]{2}"', r'\g<1>2026-11-20"'),
    (r"\d\d:\d\d:\d\d on \d+ \w+ \d{4} \(Kampala\)", "11:15:30 on 20 Nov 2026 (Kampala)"),
    (r"\buk[0-9A-Za-z]{20}\b", "uk7Q2mX9fK4sT1bL8vC3dZ"),
    (r"(ussdsk_|whsec_)[^\s\"…]{3,4}…", r"\g<1>Qm4…"),
    # A refresh token begins with the time of its login.
    (r"WyIw[0-9A-Za-z]{6}…", "WyIwMWEyMD…"),
    (r"SBX[0-9A-F]{12}", "SBX35AEDF2CAC85"),
    (r'("request_id": ")[0-9a-f]{32}', r"\g<1>9f3c1e7a5b2d48f0a6c4e8d1b3f57092"),
    (r'("next_cursor": ")[^"]+', r"\g<1>IjAxOTAwMDAw…"),
    (r'("took_ms": )[0-9]+', r"\g<1>3"),
    # A worker counts its calls of a provider some seconds after them.
    (r'"success_rate": [^,]+, "median_seconds": [^,]+', '"success_rate": 1.0, "median_seconds": 0.2'),
)


def steady(text: str) -> str:
    """`text` as another run would have it; what was the same in it stays the same."""
    numbers, names = count(1), dict[str, str]()

    def named(found: re.Match[str]) -> str:
        if found[0] not in names:
            names[found[0]] = f"01900000-0000-7000-8000-{next(numbers):012}"
        return names[found[0]]

    text = _ID.sub(named, text)
    for pattern, written in _ALWAYS:
        text = re.sub(pattern, written, text)
    return text
