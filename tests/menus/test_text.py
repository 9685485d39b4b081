"""Texts on phones: their length on the wire, and the parts of a message as phones and networks divide it."""

from __future__ import annotations

import pytest

from ussd_server.menus.text import BASIC, EXTENSION, Budget, Size, measure, plain, sms_parts, transliterate

LARGEST = Budget(182, 80)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", Size("gsm7", 0)),
        ("A" * 182, Size("gsm7", 182)),
        ("[1]", Size("gsm7", 5)),
        ("^{}\\[~]|€", Size("gsm7", 18)),
        ("é", Size("gsm7", 1)),
        ("ê", Size("ucs2", 1)),
        ("a\nb", Size("gsm7", 3)),
        ("`", Size("ucs2", 1)),
        ("…", Size("ucs2", 1)),
        ("ŋ", Size("ucs2", 1)),
        ("don’t", Size("ucs2", 5)),
        ("pay 😀", Size("ucs2", 6)),
    ],
)
def test_a_text_is_measured_as_the_standard_says(text: str, size: Size) -> None:
    assert measure(text) == size


def test_the_alphabet_has_all_its_characters() -> None:
    assert len(BASIC) == 127  # 128 codes, one of them the escape
    assert len(EXTENSION) == 10


@pytest.mark.parametrize(
    ("text", "excess"),
    [
        ("A" * 182, 0),
        ("A" * 183, 1),
        ("ŋ" + "a" * 79, 0),
        ("ŋ" + "a" * 80, 1),
        ("[" * 91, 0),
        ("[" * 92, 2),
        ("😀" * 40, 0),
        ("😀" * 41, 2),
    ],
)
def test_a_wire_of_160_octets_holds_182_septets_or_80_characters(text: str, excess: int) -> None:
    assert LARGEST.excess(text) == excess


def test_the_default_budget_is_narrower_than_the_wire() -> None:
    assert Budget().fits("A" * 160)
    assert Budget().excess("A" * 161) == 1
    assert Budget().fits("ŋ" * 70)
    assert Budget().excess("ŋ" * 71) == 1


def test_marks_and_eng_are_written_with_characters_every_phone_has() -> None:
    written = transliterate("“Ŋŋamba” – don’t… `ok`")
    assert written == "\"Ng'ng'amba\" - don't... 'ok'"
    assert measure(written).encoding == "gsm7"


@pytest.mark.parametrize(
    "strange", ["ŋ", "ê", "😀", "[", "€", "\u202e", "\x00", "漢", "ﬀ", "½", "\ud800", "–", "\u2028"]
)
def test_a_value_costs_one_septet_a_character_whatever_it_holds(strange: str) -> None:
    written = plain(f"a{strange}b")
    assert measure(written) == Size("gsm7", len(written))


def test_a_value_keeps_its_letters_where_the_alphabet_has_them() -> None:
    assert plain("José Ñandú ê ç 漢\nnew\tline\x07") == "José Ñandu e c ? new line"


def test_cutting_keeps_the_longest_beginning_that_fits() -> None:
    assert Budget(80, 40).cut("A" * 300) == "A" * 80
    assert Budget(80, 40).cut("[" * 100) == "[" * 40
    assert Budget(80, 40).fits(Budget(80, 40).cut("ŋ😀" * 100))


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
