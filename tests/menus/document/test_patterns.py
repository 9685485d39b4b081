"""Regular expressions that cannot run away."""

from __future__ import annotations

import time

import pytest

from ussd_server.menus.document.rules import MAX_ENTRY, MAX_WAYS, PatternError, compile_pattern


@pytest.mark.parametrize(
    "source",
    [
        "[A-Z]{2}[0-9]{4,6}",
        "\\d+",
        ".*",
        "[a-z]+ [a-z]+",
        "(?:yes|no|maybe)",
        "(?i)b[0-9]{1,8}",
        "([0-9]{3}-){1,3}[0-9]",
        "a*?b",
        "^x$",
    ],
)
def test_an_ordinary_pattern_is_taken(source: str) -> None:
    assert compile_pattern(source).pattern == source


@pytest.mark.parametrize(
    "source",
    [
        "(a+)+",
        "(a*)*b",
        "(a|a)*b",
        "(a|ab)+c",
        "(.*a){20}",
        "([a-z]+)*",
        ".*.*.*=",
        "\\d*\\d*\\d*x",
        "(?:a?){100}a{100}",
        "(a{1,9}){1,9}b",
        "((a{1,50}){1,50}){1,50}",
    ],
)
def test_a_pattern_that_can_run_away_is_refused(source: str) -> None:
    with pytest.raises(PatternError, match=r"run away"):
        compile_pattern(source)


@pytest.mark.parametrize(
    "source",
    [
        "((((){99}){99}){99}){99}",
        "((((?:){9}){9}){9}){9}",
        "((^){99}){99}",
        "((1{0}){99}){99}",
        "(|^){1,9}",
        "(?:()$){99}b",
    ],
)
def test_a_pattern_that_repeats_nothing_is_refused(source: str) -> None:
    with pytest.raises(PatternError, match=r"repeats a part that takes no character"):
        compile_pattern(source)


@pytest.mark.parametrize("source", ["(?i)[Ā-\uffff]", "[^\\x00-\\uffff]x", "([a-zĀ-Ͽ]{1,9})"])
def test_a_range_of_more_characters_than_a_phone_has_is_refused(source: str) -> None:
    with pytest.raises(PatternError, match=r"a range has at most 256 characters"):
        compile_pattern(source)


def test_a_range_of_all_letters_with_accents_is_taken() -> None:
    assert compile_pattern("(?i)[a-zÀ-ÿ ]{1,20}").fullmatch("andré")


@pytest.mark.parametrize("source", ["(", "[", "*", "(?P<a>x)(?P=a)", "(x)\\1", "(?=a)b", "(?<!a)b", "a{500}", "x" * 65])
def test_a_pattern_that_is_malformed_or_not_supported_is_refused(source: str) -> None:
    with pytest.raises(PatternError):
        compile_pattern(source)


@pytest.mark.parametrize("source", [".*a.*b", "[ab]*[ab]*c", "([0-9]{1,3},){1,4}x", "(?:a?){12}b"])
def test_matching_an_entry_takes_at_most_the_allowed_number_of_attempts(source: str) -> None:
    pattern, plain = compile_pattern(source), compile_pattern(f"a{{{MAX_ENTRY}}}")
    for character in "ab1,":
        began = time.thread_time()
        pattern.fullmatch(character * MAX_ENTRY)
        spent, began = time.thread_time() - began, time.thread_time()
        for _ in range(MAX_WAYS):
            plain.fullmatch("a" * MAX_ENTRY)
        assert spent < time.thread_time() - began


def test_digits_are_ascii_digits() -> None:
    assert compile_pattern("\\d+").fullmatch("١٢") is None
