"""Checks of each node by itself: its names, keys, texts, secrets and addresses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from ussd_server.menus.document import nodes
from ussd_server.menus.document.document import Document
from ussd_server.menus.document.expressions import Name
from ussd_server.menus.document.findings import Finding, Spelling, did_you_mean, error, warning
from ussd_server.menus.document.variables import WIDEST_FACTS
from ussd_server.menus.engine.views import WidestValues, choices
from ussd_server.menus.tools.node_parts import changes, exits, names_in, texts

_HEADER = re.compile(r"[A-Za-z0-9-]{1,60}", re.ASCII)
_OUR_HEADERS = re.compile(
    r"host|content-.*|transfer-encoding|connection|te|trailer|upgrade|webhook-.*|idempotency-key", re.IGNORECASE
)
# A menu that asks for a mobile-money PIN teaches subscribers to disclose it.
_PIN = re.compile(r"\bpin\b|namba ya siri|ennamba (?:yo )?ey'ekyama", re.IGNORECASE)


def find_unknown_targets(document: Document, spelling: Spelling) -> Iterator[Finding]:
    """Find exits that lead to no node."""
    names = document.nodes.keys() | document.unread
    written = [name for name in names if "." not in name]

    def unknown(what: str, target: str, node: str | None, path: tuple[str, ...]) -> Finding:
        nearest = spelling.nearest(target, written)
        message = f"{what} `{target}`, and there is no such node{did_you_mean(nearest)}"
        return error("goto", message, node, path, nearest)

    if document.start not in names and document.start:
        yield unknown("`start` is", document.start, None, ("start",))
    for name, node in document.nodes.items():
        for label, target, path in exits(node):
            if target not in names:
                yield unknown(f"`{label or 'goto'}` leads to", target, name, path)


def find_key_clashes(document: Document) -> Iterator[Finding]:
    """Find options that cannot be chosen because another option or a navigation key has their key."""
    widest = WidestValues(document)
    for name, node in document.nodes.items():
        if nodes.has_screen(node):
            keys = [each.key for each in choices(document, node, widest, document.default_language)]
            for key in sorted(set(keys) & document.navigation.keys):
                message = f"the key `{key}` is a navigation key; give the option another"
                yield error("option_key", message, name, _key_path(node, key))
            for key in sorted({key for key in keys if keys.count(key) > 1}):
                yield error("option_key", f"two options have the key `{key}`", name, _key_path(node, key))
        if isinstance(node, nodes.InputNode):
            values = {value for rule in node.validate for value in rule.values}
            for key in sorted(values & {document.navigation.back, document.navigation.home}):
                yield error("option_key", f"`one_of` accepts `{key}`, which is a navigation key", name)


def find_missing_texts(document: Document) -> Iterator[Finding]:
    """Find texts that the default language lacks, or another language where the document allows no fallback."""
    for name, node in document.nodes.items():
        for language in document.languages:
            missing = [path for path, text in texts(node) if language not in text.by_language]
            if not missing:
                continue
            if language == document.default_language:
                message = f"a text is missing in the default language `{language}`"
                yield error("text", message, name, missing[0])
            elif not document.fallback:
                where = ", ".join(f"`{'.'.join(path)}`" for path in missing)
                ways = 'write it, or let the default language stand in with `"fallback": true`'
                finding = error("language", f"{where} has no text in `{language}`; {ways}", name, missing[0])
                yield replace(finding, language=language)


def find_unknown_variables(document: Document, spelling: Spelling) -> Iterator[Finding]:
    for name, node in document.nodes.items():
        for path, used in sorted(names_in(node), key=str):
            item_names = _item_names(document, node) if path[0] in ("label", "value") else set()
            if not _is_known(document, used, item_names):
                nearest = _nearest(document, used, item_names, spelling)
                message = f"`{used}` is not declared{_hint(used)}{did_you_mean(nearest)}"
                yield error("variable", message, name, path, nearest)
        for var, path, _ in changes(node):
            if var not in document.variables:
                nearest = spelling.nearest(var, document.variables)
                message = f"`vars.{var}` is not declared; add it to `vars`{did_you_mean(nearest)}"
                yield error("variable", message, name, path, nearest)
        variable = document.variables.get(node.var) if isinstance(node, nodes.BalanceNode) else None
        if variable is not None and variable.type not in ("amount", "integer", "text"):
            yield error("variable", "the variable cannot hold a balance; declare it as an amount", name)


def find_bad_addresses(document: Document, plain_http: bool) -> Iterator[Finding]:
    """Find addresses that are malformed or hide their host in a variable, and headers that may not be set."""
    for name, node in document.nodes.items():
        if isinstance(node, nodes.HandoverNode):
            yield from _bad_address(name, node.url, plain_http)
        if isinstance(node, nodes.HttpNode):
            first = node.url.parts[0] if node.url.parts else ""
            literal = first if isinstance(first, str) else ""
            if len(node.url.parts) > 1 and literal.count("/") < 3:
                yield error("address", "the host of an address has to be written out, without variables", name)
            else:
                yield from _bad_address(name, literal, plain_http)
            for header, value in node.headers:
                if not _HEADER.fullmatch(header) or _OUR_HEADERS.fullmatch(header) or "\n" in value.source:
                    yield error("address", f"the header `{header}` may not be set", name)


def find_pin_questions(document: Document) -> Iterator[Finding]:
    for name, node in document.nodes.items():
        questions = node.text.by_language.values() if isinstance(node, nodes.InputNode) else ()
        if any(_PIN.search(text.source) for text in questions):
            yield warning(
                "pin", "this asks for a PIN; a mobile-money PIN belongs only into the provider's own prompt", name
            )


def find_pin_faults(document: Document) -> Iterator[Finding]:
    """Find `pin` nodes without a way out, of different lengths, or with PINs that are navigation keys."""
    pins = [node for node in document.nodes.values() if isinstance(node, nodes.PinNode)]
    for node in pins:
        if node.mode != "choose" and node.locked is None:
            yield error("pin", f"`{node.mode}` needs `locked`, where a locked number is led", node.name)
        if node.mode == "choose" and node.missing is not None:
            yield warning("pin", "`missing` has no effect here: it belongs to `ask` and `change`", node.name)
        if node.length != pins[0].length:
            message = f"the PIN has {node.length} digits here and {pins[0].length} in `{pins[0].name}`"
            yield warning("pin", message, node.name)
        for key in sorted(document.navigation.keys):
            if key.isdigit() and len(key) == node.length:
                yield error("pin", f"the navigation key `{key}` could not be typed as a PIN", node.name)


def _bad_address(node: str, url: str, plain_http: bool) -> Iterator[Finding]:
    try:
        parsed = urlsplit(url)
        # Reading the port checks it.
        is_complete = bool(parsed.hostname) and parsed.port != 0
    except ValueError:
        is_complete = False
    schemes = ("https", "http") if plain_http else ("https",)
    if not is_complete or parsed.scheme not in schemes or "@" in parsed.netloc or not url.isprintable() or " " in url:
        accepted = " or ".join(f"{scheme}://host/..." for scheme in schemes)
        yield error("address", f"`{url}` is not an address that may be called; write {accepted}", node)


_FACTS = ("session", "provider", "subscriber", "today")


def _is_known(document: Document, name: Name, item_names: set[str]) -> bool:
    if name.scope == "vars":
        return name.name in document.variables
    return name in WIDEST_FACTS if name.scope in _FACTS else name.name in item_names


def _nearest(document: Document, name: Name, item_names: set[str], spelling: Spelling) -> str | None:
    """Return the known name nearest to an undeclared one, with its scope."""
    if name.scope == "vars":
        names: set[str] = set(document.variables)
    else:
        facts = {each.name for each in WIDEST_FACTS if each.scope == name.scope}
        names = facts if name.scope in _FACTS else item_names
    nearest = spelling.nearest(name.name, sorted(names))
    return None if nearest is None else f"{name.scope}.{nearest}"


def _key_path(node: nodes.Node, key: str) -> tuple[str, ...]:
    """Return the path in a node of the last option with a key; an empty one where the document does not write it."""
    options: Sequence[nodes.Option | nodes.LanguageOption] = (
        node.options if isinstance(node, nodes.MenuNode | nodes.LanguageNode) else ()
    )
    numbers = [str(number) for number, option in enumerate(options, start=1) if option.key == key]
    return ("options", numbers[-1], "key") if numbers else ()


def _hint(name: Name) -> str:
    if name.scope in _FACTS:
        facts = sorted(each.name for each in WIDEST_FACTS if each.scope == name.scope)
        return f"; a {name.scope} has {', '.join(facts)}"
    return "; add it to `vars`" if name.scope == "vars" else " by the items of this list"


def _item_names(document: Document, node: nodes.Node) -> set[str]:
    """Return the fields that every item of a list node has; the empty name means that an item is one value."""
    if not isinstance(node, nodes.ListNode):
        return set()
    for name in node.items.names:
        variable = document.variables.get(name.name)
        return set(variable.fields) if variable is not None else set()
    items = node.items.value({}) or []
    fields = [set(item) if isinstance(item, dict) else {""} for item in items]
    return set.intersection(*fields) if fields else set()
