"""Inputs of one size that are the most work for a parser, by name, each beside a plain one of the same size."""

from __future__ import annotations

from collections.abc import Iterator

_MOST_VALUES = 680
_BOUNDARY = b"b"
MULTIPART = "multipart/form-data; boundary=b"
FORM = "application/x-www-form-urlencoded"


def plain_json(size: int) -> bytes:
    """An object with one text."""
    return _padded(b"", size)


def json_bodies(size: int, most_values: int = _MOST_VALUES) -> Iterator[tuple[str, bytes]]:
    """Bodies of repeated units, and bodies with as many of them as are parsed before a bound refuses the rest."""
    units = {
        "objects": b"{},", "lists": b"[],", "numbers": b"0,", "decimals": b"0.1,", "texts": b'"",', "open lists": b"[",
        "open objects": b'{"a":', "nested names": b'{"a":{}},', "quotes": b'"', "backslashes": b'"\\\\",',
        "escaped quotes": b'"\\"",', "closed lists": b"]", "names without end": b'"a":',
        "numbers of 30 digits": b"1" * 30 + b",",
        "exponents": b"1e9,", "lists in lists": b"[[[[[[[[]]]]]]]],", "spaces": b"                               0,",
    }  # fmt: skip
    for name, unit in units.items():
        few = (most_values * len(unit)) // max(1, unit.count(b",") + unit.count(b"[") + unit.count(b"{"))
        for kind, length in (("", size), ("few ", min(size // 2, few))):
            inside = (unit * (length // len(unit)))[: size - 12].rstrip(b",")
            yield kind + name, _padded(b'"x":[' + inside + b"],", size)
    names = b",".join(b'"%x":0' % number for number in range(most_values - 2))
    yield "few names", _padded(names + b",", size)
    yield "all names", _padded(b",".join(b'"%x":0' % number for number in range(size // 9)) + b",", size)
    for name, last in (("duplicate", b'"a":1,"a":2'), ("escaped duplicate", b'"a":1,"\\u0061":2')):
        for kind, count in (("", size // 8 - 40), ("few ", most_values // 2 - 20)):
            yield kind + name, _padded(b'"x":[' + b'{"a":0},' * count + b"{" + last + b"}],", size)
        yield f"far {name}", _padded(names[: -len(names) // 50].rpartition(b",")[0] + b"," + last + b",", size)
    yield "letters as escapes", b'{"a":"' + b"\\u0061" * ((size - 8) // 6) + b'"}'
    yield "short escapes", b'{"a":"' + b"\\n" * ((size - 8) // 2) + b'"}'
    yield "half a pair", b'{"a":"' + b"\\n" * ((size - 14) // 2) + b'\\ud800"}'
    yield "one long number", b'{"a":' + b"1" * (size - 6) + b"}"
    yield "one long decimal", b'{"a":0.' + b"1" * (size - 8) + b"}"
    yield "no UTF-8", b'{"a":"' + b"\xe9" * (size - 8) + b'"}'


def plain_menu(size: int) -> str:
    """A menu in YAML of as many nodes as there is room for."""
    node = (
        "  n{0}:\n    type: screen\n    text: Pay the school fees\n    options:\n      - {{label: Pay, goto: n{0}}}\n"
    )
    return "start: n0\nnodes:\n" + "".join(map(node.format, range(size // len(node))))


def menu_texts(size: int) -> Iterator[tuple[str, str]]:
    """YAML of repeated units."""
    units = (
        "- a\n", "{a: b},", "[],", "[", "? a\n: b\n", '"a",', "- - - - - a\n", "1,", "- |\n a\n", "#a\n", ": ",
        "- &a\n",
    )  # fmt: skip
    for unit in units:
        for begin in ("", "a: ["):
            yield repr(begin + unit), begin + unit * (size // len(unit))


def plain_form(size: int) -> bytes:
    """A form with one long field."""
    return b"email=" + b"a" * (size - 6)


def form_bodies(size: int) -> Iterator[tuple[str, bytes]]:
    """Forms of repeated units."""
    units = {
        "bytes that are no UTF-8": b"%E9", "letters": b"%61", "percent signs": b"%", "fields": b"a&",
        "empty fields": b"&",
        "values": b"a=b&", "half escapes": b"%6", "pluses": b"+", "raw bytes": b"\xe9", "euros": b"%E2%82%AC",
        "semicolons": b"a;",
    }  # fmt: skip
    for name, unit in units.items():
        yield name, (b"email=" + unit * (size // len(unit)))[:size]
    yield "few fields", (b"a=%C3%A9b&" * 390 + b"email=" + b"a" * size)[:size]
    yield "few escapes", (b"email=" + b"%61" * min(5900, size // 6) + b"a" * size)[:size]
    yield "few broken escapes", (b"email=" + b"%" * min(5900, size // 2) + b"a" * size)[:size]
    yield "few bytes that are no UTF-8", (b"email=" + b"%E9" * min(5900, size // 6) + b"a" * size)[:size]


def plain_multipart(size: int) -> bytes:
    """A form with one file."""
    return _part(b'form-data; name="file"; filename="a"', b"a" * (size - 100)) + b"--b--\r\n"


def multipart_bodies(size: int) -> Iterator[tuple[str, bytes]]:
    """Forms with many parts, and with heads that are hard to read."""
    end = b"--b--\r\n"
    units = {
        "escaped quotes": b'\\"',
        "letters": b"a",
        "percent": b"%22",
        "quotes": b'"',
        "parameters": b'"; a="b',
        "stars": b"\"; a*=utf-8''%E9",
    }
    for name, unit in units.items():
        yield f"a name of {name}", _part(b'form-data; name="' + (unit * size)[: size - 200] + b'"', b"a") + end
    for name, unit in units.items():
        yield (
            f"a short name of {name}",
            _part(b'form-data; name="' + (unit * 4000)[:3900] + b'"', b"a" * (size - 4100)) + end,
        )
    for count in (15, 40, 1200):
        parts = _part(b'form-data; name="a"', b"b") * count
        yield f"{count} parts", parts + _part(b'form-data; name="a"', b"a" * max(0, size - 100 - len(parts))) + end
    yield "parts", _part(b'form-data; name="a"', b"b") * (size // 52) + end
    yield "headers", b"--b\r\n" + b"a:b\r\n" * (size // 5 - 20) + b"\r\n\r\n" + end
    yield (
        "folded headers",
        b"--b\r\nContent-Disposition: form-data" + b"\r\n ;a=b" * (size // 8 - 20) + b"\r\n\r\n" + end,
    )
    yield "line breaks", _part(b'form-data; name="file"; filename="a"', b"\r\n" * (size // 2 - 60)) + end
    yield "half boundaries", _part(b'form-data; name="file"; filename="a"', b"\r\n--" * (size // 4 - 60)) + end


def _padded(fields: bytes, size: int) -> bytes:
    return b"{" + fields + b'"username":"' + b"a" * max(0, size - len(fields) - 15) + b'"}'


def _part(disposition: bytes, content: bytes) -> bytes:
    return b"--" + _BOUNDARY + b"\r\nContent-Disposition: " + disposition + b"\r\n\r\n" + content + b"\r\n"
