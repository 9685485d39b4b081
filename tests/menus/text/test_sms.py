"""The parts of a message: counted as phones and networks divide them."""

from __future__ import annotations

import pytest

from ussd_server.menus.text.gsm7 import sms_parts


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", 1),
        ("a" * 160, 1),
        ("a" * 161, 2),
        ("a" * 306, 2),
        ("a" * 307, 3),
        ("€" * 80, 1),
        ("€" * 81, 2),
        ("ŋ" * 70, 1),
        ("ŋ" * 71, 2),
        ("ŋ" * 134, 2),
        ("ŋ" * 135, 3),
    ],
)
def test_a_text_takes_as_many_parts_as_the_standard_says(text: str, parts: int) -> None:
    assert sms_parts(text) == parts


@pytest.mark.parametrize("text", ["a" * 152 + "€" + "a" * 152, "ŋ" * 66 + "😀" + "ŋ" * 66])
def test_a_character_of_two_units_is_never_divided_between_parts(text: str) -> None:
    assert sms_parts(text) == 3
