"""Documents as texts: YAML 1.2 and JSON mean the same, and what cannot be read is named with line and column."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from ussd_server.menus.checks.check import check
from ussd_server.menus.source.texts import MOST_BYTES, read_json, read_text
from ussd_server.menus.source.yaml_text import SourceError, json_places, read_yaml
from ussd_server.parsing.json_text import duplicate_name

MENU = """\
id: shop
start: root
languages: [en, lg]
vars: {amount: {type: amount, max_len: 6}}
nodes:
  root:
    type: menu
    text: {en: Welcome, lg: Tukusanyukidde}
    options:
      - {label: {en: Pay, lg: Sasula}, goto: amount}
  amount:
    type: input
    text: {en: Amount?, lg: Ssente?}
    var: amount
    goto: bye
  bye: {type: end, text: {en: Goodbye, lg: Weeraba}}
"""


def findings(text: str, *, is_yaml: bool = True) -> list[tuple[str, str | None, int | None, int | None, str | None]]:
    """Return rule, node, line, column and suggestion of every finding, and assert that messages name them."""
    document, places = read_text(text, is_yaml=is_yaml)
    report = check(document, places=lambda: places)
    for each in report.findings:
        if each.line is not None:
            assert each.message.endswith(f" (line {each.line}, column {each.column})")
        assert each.suggestion is None or f"did you mean `{each.suggestion}`?" in each.message
    return [(each.rule, each.node, each.line, each.column, each.suggestion) for each in report.findings]


def test_plain_words_are_texts_and_only_the_core_schema_of_yaml_1_2_has_other_values() -> None:
    text = "yes: no\n64110: {on: true, off: [False, 7, 0o17, 0x1F, 1.5, ~, null, 2026-12-31, 1_0, '8']}\nempty:\n"
    listed = [False, 7, 15, 31, 1.5, None, None, "2026-12-31", "1_0", "8"]
    assert read_yaml(text)[0] == {"yes": "no", "64110": {"on": True, "off": listed}, "empty": None}


@pytest.mark.parametrize(
    ("text", "said", "place"),
    [
        ("a: &x 1\nb: *x", "Anchors and aliases", (1, 4)),
        ("a: 1\nb: *x", "Anchors and aliases", (2, 4)),
        ("a: {b: 1}\nc: {<<: {d: 1}}", "Merge keys", (2, 5)),
        ("a: 1\nb: {c: 1, c: 2}", "`c` is given twice", (2, 11)),
        ("a: !!str 5", "Tags", (1, 4)),
        ("!!python/object:os.system {}", "Tags", (1, 1)),
        ("a: 'x'\n---\nb: 1", "more than one document", (2, 1)),
        ("x: [1, 2\ny: 3", "not valid YAML: a comma or the closing bracket is missing", (2, 2)),
        ("a: b: c", "not valid YAML: a `:` stands within a text; put the text in quotes", (1, 5)),
        ("a:\n\t- b", "not valid YAML: a tab stands here; indent with spaces", (2, 1)),
        ("a: 'x\nb: 1", "not valid YAML: a quote is not closed", (2, 5)),
        ("a: @x", "this character cannot begin a text; put the text in quotes", (1, 4)),
        ("a:\n  b: 1\n c: 2", "look at indentation, quotes and brackets", (3, 2)),
        ("a: [1,,2]", "a value is missing", (1, 7)),
        ('a: "\\q"', "write two of them, or use single quotes", (1, 6)),
        ("a: 1\nb: \x00", "control character", (2, 4)),
        ('a: "\\0"', "NUL", (1, 4)),
        ('a: "\\ud800"', "surrogate", (1, 4)),
        ('a: "\\U00110000"', "not valid YAML", None),
        ('a: "\\UFFFFFFFF"', "not valid YAML", None),
        ("%YAML " + "9" * 5000, "not valid YAML", None),
        ("a: .inf", "number", (1, 4)),
        ("a: 1e999", "too large", (1, 4)),
        ("a: 1" + "0" * 5000, "30 digits", (1, 4)),
        ("? [a]\n: b", "A name has to be a text", (1, 3)),
        ("a: " + "[" * 40 + "]" * 40, "deeper than 32", (1, 35)),
        ("a: " + "[" * 5000, "deeper than 32", (1, 204)),
        ("a: [" + "x," * 25_000 + "]", "more than 20,000", (1, 40_001)),
        ("[1, 2]", "has to be an object", None),
        ("just words", "has to be an object", None),
        ("", "has to be an object", None),
    ],
)
def test_yaml_that_is_no_document_is_refused_by_line_and_column(
    text: str, said: str, place: tuple[int, int] | None
) -> None:
    with pytest.raises(SourceError, match=said) as refused:
        read_yaml(text)
    assert refused.value.place == place or (place == (1, 40_001) and refused.value.place is not None)
    assert (f"line {refused.value.place.line}" in str(refused.value)) if refused.value.place else True


@pytest.mark.parametrize(
    ("text", "said", "place"),
    [
        ('{"a": 1,\n "b" 2}', "not valid JSON: a `:` is missing after a name", (2, 6)),
        ('{"a": 1,}', "a comma too many before", (1, 9 if sys.version_info < (3, 13) else 8)),
        ('{"a": "x', "the text that begins here has no closing quote", (1, 7)),
        ('{"a": 1 "b": 2}', "a comma or the closing bracket is missing", (1, 9)),
        ('{"a": yes}', "a value is missing; texts need double quotes", (1, 7)),
        ('{"a": 1,\n "a": 2}', "`a` is given twice", (2, 2)),
        ('{"a": NaN}', "NaN", None),
        ("[1]", "has to be an object", None),
        ("[" * 100_000, "deeper than 32", None),
        ('{"a": ' + "[" * 32 + "]" * 32 + "}", "deeper than 32", None),
        ('{"a": ' + "1" * 5000 + "}", "A number has at most 30 digits", None),
        ('{"a": 1e999}', "too long or too large", None),
        ('{"a": "\\ud800"}', "NUL character or half", None),
        ('{"a": "b\\u0000"}', "NUL character or half", None),
    ],
)
def test_json_that_is_no_document_is_refused_by_line_and_column(
    text: str, said: str, place: tuple[int, int] | None
) -> None:
    with pytest.raises(SourceError, match=said) as refused:
        read_json(text)
    assert refused.value.place == place


@pytest.mark.parametrize("is_yaml", [True, False])
def test_a_document_of_more_than_64_kib_is_refused_before_it_is_read(is_yaml: bool) -> None:
    for text in ("[" * (MOST_BYTES + 1), "é" * (MOST_BYTES // 2 + 1)):
        with pytest.raises(SourceError, match=r"^The document is larger than 64 KiB$"):
            read_text(text, is_yaml=is_yaml)
    assert read_text('{"a": "' + "x" * (MOST_BYTES - 9) + '"}', is_yaml=is_yaml)[0]["a"][0] == "x"


def test_a_backslash_before_u_is_text() -> None:
    assert read_json(r'{"a": "\\u0000 \u00e9"}')[0] == {"a": r"\u0000 é"}


def test_positions_in_json_are_those_in_yaml() -> None:
    text = '{"a": [1, {"b": {}, "c": []}, []],\n "d": "x,{\\"", "e": {"f": [[2]], "g": "}"},\n"h": true}'
    assert json_places(text) == read_yaml(text)[1] == read_json(text)[1]
    assert duplicate_name('{"a": [{"b": 1}, {"b": 2}], "b": {"a": 1}}') is None
    nested: Any = {"x": [{"y": [number, "z\n", {}]} for number in range(50)]}
    written = json.dumps(nested, indent=1)
    assert json_places(written) == read_yaml(written)[1]


def test_an_undeclared_variable_in_a_body_is_found_where_it_stands() -> None:
    body = "{a: [1, '{{vars.amount}}', '{{vars.amuont}}']}"
    call = f"{{type: http, url: https://a.example/, method: POST, body: {body}, goto: bye, on_error: bye}}"
    text = f"{MENU}  call: {call}\n".replace("    goto: bye", "    goto: call")
    column = text.splitlines()[-1].index("'{{vars.amuont") + 1
    assert findings(text) == [("variable", "call", 17, column, "vars.amount")]


@pytest.mark.parametrize(
    ("written", "misspelt", "expected"),
    [
        # A misspelt target: the node that only it leads to is not called unreachable as well.
        ("goto: amount}", "goto: amuont}", ("goto", "root", 10, 46, "amount")),
        ("start: root", "start: rot", ("goto", None, 2, 8, "root")),
        # A misspelt field: that the right one is missing is not said as well.
        ("    goto: bye", "    goot: bye", ("document", "amount", 15, 5, "goto")),
        ("    text: {en: Amount", "    txet: {en: Amount", ("document", "amount", 13, 5, "text")),
        ("    type: input", "    tpye: input", ("document", "amount", 12, 5, "type")),
        ("    type: input", "    type: inptu", ("document", "amount", 12, 11, "input")),
        ("start: root", "strat: root", ("document", None, 2, 1, "start")),
        ("    var: amount", "    var: amont", ("variable", "amount", 14, 10, "amount")),
        ("en: Goodbye", "en: '{{vars.amont}}'", ("variable", "bye", 16, 31, "vars.amount")),
        ("en: Goodbye", "en: '{{vars.amount|ugxx}}'", ("expression", "bye", 16, 31, "ugx")),
        ("type: amount", "type: amuont", ("document", None, 4, 23, "amount")),
        ("lg: Weeraba", "lq: Weeraba", ("document", "bye", 16, 44, None)),
        # What is read in a condition, and an option whose key another one has.
        ("goto: amount}", "goto: amount, when: vars.amont > 1}", ("variable", "root", 10, 60, "vars.amount")),
        ("goto: amount}", "goto: amount, when: vars.amount =< 1}", ("expression", "root", 10, 60, None)),
        (
            "goto: amount}",
            "goto: amount, key: 1}\n      - {label: {en: No, lg: Nedda}, goto: bye, key: 1}",
            ("option_key", "root", 11, 54, None),
        ),
        # What stands where a text is wanted.
        ("en: Goodbye", "en: 5", ("document", "bye", 16, 31, None)),
        ("{en: Goodbye, lg: Weeraba}", "true", ("document", "bye", 16, 26, None)),
        (
            "label: {en: Pay, lg: Sasula}, ",
            "label: {en: Pay, lg: Sasula}, key: 1.0, ",
            ("option_key", "root", 10, 45, None),
        ),
        (
            "    var: amount",
            '    var: amount\n    validate: [{rule: one_of, values: ["1", 2]}]',
            ("text", "amount", 15, 45, None),
        ),
        ("{en: Goodbye, lg: Weeraba}", "{en: Goodbye}", ("language", "bye", 16, 26, None)),
        ("{en: Goodbye, lg: Weeraba}", "Goodbye", ("language", "bye", 16, 26, None)),
        ("languages: [en, lg]", "languages: [en]", ("document", "root", 8, 29, None)),
    ],
)
def test_a_fault_is_one_finding_with_its_position_and_the_nearest_right_name(
    written: str, misspelt: str, expected: tuple[Any, ...]
) -> None:
    assert findings(MENU) == []
    assert written in MENU
    spoiled = MENU.replace(written, misspelt, 1)
    (found,) = findings(spoiled)
    assert found == expected
    as_json = json.dumps(read_yaml(spoiled)[0], indent=2)
    (same,) = findings(as_json, is_yaml=False)
    assert (same[0], same[1], same[4]) == (found[0], found[1], found[4])
    assert same[2] is not None


def test_a_language_without_a_text_may_fall_back_when_the_document_says_so() -> None:
    lacking = MENU.replace("{en: Goodbye, lg: Weeraba}", "{en: Goodbye}").replace("{en: Pay, lg: Sasula}", "Pay")
    document, _ = read_yaml(lacking)
    found = [(each.rule, each.node, each.language, each.message) for each in check(document).errors]
    ways = 'write it, or let the default language stand in with `"fallback": true`'
    assert found == [
        ("language", "root", "lg", f"`options.1.label` has no text in `lg`; {ways}"),
        ("language", "bye", "lg", f"`text` has no text in `lg`; {ways}"),
    ]
    assert check({**document, "fallback": True}).passes
    assert check({**document, "fallback": False}).errors


def test_a_variable_or_limit_that_cannot_be_read_causes_no_finding_about_screens() -> None:
    long = MENU.replace("en: Goodbye", f"en: '{'x' * 150}{{{{vars.amount}}}}'")
    assert [rule for rule, *_ in findings(long)] == []
    assert [rule for rule, *_ in findings(long.replace("max_len: 6", "max_len: 99"))] == ["document"]
    bad_limits = long.replace("start: root", "start: root\nlimits: {septets: 300}").replace("max_len: 6", "max_len: 15")
    assert [rule for rule, *_ in findings(bad_limits)] == ["document"]
    wrong_default = MENU.replace("start: root", "start: root\ndefault_language: sw")
    assert [rule for rule, *_ in findings(wrong_default)] == ["document"]


def test_as_many_mistakes_as_fit_into_a_document_do_not_use_up_the_work_of_a_check() -> None:
    nodes = "".join(
        f"  n{number}{'x' * 30}: {{type: text, text: a, goto: n{number}{'x' * 30}y}}\n" for number in range(490)
    )
    found = findings(f"id: m\nstart: n1\nnodes:\n{nodes}")
    assert len(found) == 100
    assert {rule for rule, *_ in found} == {"goto", "left_out"}
    assert 0 < sum(suggestion is not None for *_, suggestion in found) <= 12
