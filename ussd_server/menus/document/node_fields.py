"""Reads the nodes of a menu document, one method for each kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ussd_server.menus.document.expressions import Expression, Name, constant
from ussd_server.menus.document.fields import NAME, DocumentFields, DocumentReading
from ussd_server.menus.document.nodes import (
    Assignments,
    BalanceNode,
    ConfirmNode,
    EndNode,
    HandoverNode,
    HttpNode,
    InputNode,
    Invalid,
    LanguageNode,
    ListNode,
    LookupNameNode,
    MenuNode,
    Node,
    Option,
    PayNode,
    RouterNode,
    SetNode,
    SmsNode,
    TextNode,
)
from ussd_server.menus.document.rules import MAX_RULES, read_rule
from ussd_server.menus.document.variables import MAX_ITEMS, MAX_TEXT, Variable
from ussd_server.menus.phrases import LANGUAGE_NAMES

KEY = re.compile(r"[0-9A-Za-z]{1,4}", re.ASCII)
MAX_TIMEOUT_MS = 2500
MAX_OPTIONS = 60
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
PAYMENT_KINDS = ("collection", "disbursement", "transfer")
PROTOCOLS = ("neutral", "africastalking")


class NodeFields:
    """Reads nodes one by one; `extra` collects the `end` screens that are written inside other nodes."""

    def __init__(self, reading: DocumentReading, variables: Mapping[str, Variable]) -> None:
        self.reading, self.variables = reading, variables
        self.extra: dict[str, Node] = {}
        self._readers: dict[str, Callable[[DocumentFields, str], Node]] = {
            "menu": self._menu, "input": self._input, "confirm": self._confirm, "list": self._list, "text": self._text,
            "router": self._router, "set": self._set, "language": self._language, "balance": self._balance,
            "lookup_name": self._lookup_name, "http": self._http, "pay": self._pay, "sms": self._sms,
            "handover": self._handover, "end": self._end,
        }  # fmt: skip

    def read(self, name: str, raw: Any) -> Node | None:
        """Return the node, or None when a part of it could not be read; the problems are in `reading`."""
        before = len(self.reading.problems)
        fields = DocumentFields(raw, self.reading, name)
        if not NAME.fullmatch(name):
            fields.refuse("a node's name begins with a letter and has at most 40 letters, digits, - and _")
        if len(self.reading.problems) == before:
            kind = fields.string("type", choices=tuple(self._readers))
            if kind in self._readers:
                node = self._readers[kind](fields, name)
                fields.refuse_others()
            else:
                fields.refuse_misspelt("type")
        return node if len(self.reading.problems) == before else None

    def _menu(self, fields: DocumentFields, name: str) -> Node:
        options = []
        for number, raw in enumerate(fields.items("options", MAX_OPTIONS), start=1):
            option = fields.within(raw, f"options.{number}")
            options.append(
                Option(
                    self._key(option, number),
                    option.text("label"),
                    option.identifier("goto"),
                    option.optional_expression("when"),
                    self._assignments(option, "set"),
                )
            )
            option.refuse_others()
        if not options:
            fields.refuse("a menu needs at least one option", at="options")
        return MenuNode(name, fields.text("text"), tuple(options), self._invalid(fields))

    def _key(self, option: DocumentFields, number: int) -> str:
        raw = option.value("key")
        key = str(number if raw is None else raw)
        if not KEY.fullmatch(key):
            option.refuse(f"the key `{key}` has to be 1 to 4 letters or digits", "option_key", "key")
        elif raw is not None and (isinstance(raw, bool) or not isinstance(raw, str | int)):
            option.complain("`key` has to be a text; write it in quotes", "key")
        return key

    def _input(self, fields: DocumentFields, name: str) -> Node:
        rules = tuple(
            read_rule(fields.within(raw, f"validate.{number}"))
            for number, raw in enumerate(fields.items("validate", MAX_RULES), start=1)
        )
        text, var, goto = fields.text("text"), fields.identifier("var"), fields.identifier("goto")
        return InputNode(name, text, var, goto, rules, fields.boolean("secret"), self._invalid(fields))

    def _confirm(self, fields: DocumentFields, name: str) -> Node:
        yes, no = self._branch(fields, name, "yes"), self._branch(fields, name, "no")
        return ConfirmNode(name, fields.text("text"), yes, no, self._invalid(fields))

    def _list(self, fields: DocumentFields, name: str) -> Node:
        items, item_widths = self._items(fields)
        inner = DocumentFields(
            {key: given for key in ("label", "value") if (given := fields.value(key)) is not None},
            replace(self.reading, widest={**self.reading.widest, **item_widths}),
            name,
        )
        label = inner.text("label")
        text, goto = fields.text("text"), fields.identifier("goto")
        value, var = inner.optional_expression("value"), fields.optional_identifier("var")
        empty = self._optional_branch(fields, name, "empty")
        return ListNode(name, text, items, label, goto, value, var, empty, self._invalid(fields))

    def _items(self, fields: DocumentFields) -> tuple[Expression, dict[Name, str]]:
        """Read a literal list or the name of a list variable, with the widths of the fields of an item."""
        raw = fields.value("items")
        if isinstance(raw, list | tuple):
            return constant(list(raw)), self._literal_widths(fields, raw)
        items = fields.expression("items")
        declared = [self.variables.get(name.name) for name in items.names if name.scope == "vars"]
        if len(declared) != 1 or declared[0] is None or declared[0].type != "list":
            fields.refuse("`items` has to be a list, or `vars.x` with a variable of type list", at="items")
            return items, {}
        return items, {Name("item", each): variable.widest for each, variable in declared[0].fields.items()}

    def _literal_widths(self, fields: DocumentFields, items: list[Any] | tuple[Any, ...]) -> dict[Name, str]:
        if not 0 < len(items) <= MAX_ITEMS:
            fields.refuse(f"`items` has to have 1 to {MAX_ITEMS} items", at="items")
        widths: dict[Name, str] = {}
        for item in items:
            for key, value in item.items() if isinstance(item, Mapping) else [("", item)]:
                if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > MAX_TEXT:
                    message = f"an item of `items` has texts of at most {MAX_TEXT} characters, and numbers"
                    fields.refuse(message, at="items")
                    return {}
                widths[Name("item", str(key))] = max(widths.get(Name("item", str(key)), ""), str(value), key=len)
        return widths

    def _text(self, fields: DocumentFields, name: str) -> Node:
        return TextNode(name, fields.text("text"), fields.identifier("goto"))

    def _router(self, fields: DocumentFields, name: str) -> Node:
        cases = []
        for number, raw in enumerate(fields.items("cases"), start=1):
            case = fields.within(raw, f"cases.{number}")
            cases.append((case.expression("when"), case.identifier("goto")))
            case.refuse_others()
        return RouterNode(name, tuple(cases), self._branch(fields, name, "else"))

    def _set(self, fields: DocumentFields, name: str) -> Node:
        values = self._assignments(fields, "values")
        if not values:
            fields.refuse("`values` is empty; name a variable and its expression", at="values")
        return SetNode(name, values, fields.identifier("goto"))

    def _language(self, fields: DocumentFields, name: str) -> Node:
        raw_options = fields.items("options") or [{"language": each} for each in self.reading.languages]
        options = []
        for number, raw in enumerate(raw_options, start=1):
            option = fields.within(raw, f"options.{number}")
            language = option.string("language", choices=self.reading.languages)
            label = option.string("label", default=LANGUAGE_NAMES.get(language, language or "-"), longest=40)
            options.append((self._key(option, number), language, label))
            option.refuse_others()
        text = fields.optional_text("text")
        return LanguageNode(name, text, tuple(options), fields.identifier("goto"), self._invalid(fields))

    def _balance(self, fields: DocumentFields, name: str) -> Node:
        account = self._account(fields, "of") or constant("main")
        var, goto = fields.identifier("var"), fields.identifier("goto")
        return BalanceNode(name, account, var, goto, self._optional_branch(fields, name, "on_error"))

    def _lookup_name(self, fields: DocumentFields, name: str) -> Node:
        phone_number, var, goto = fields.expression("of"), fields.identifier("var"), fields.identifier("goto")
        return LookupNameNode(name, phone_number, var, goto, self._optional_branch(fields, name, "on_error"))

    def _http(self, fields: DocumentFields, name: str) -> Node:
        headers = fields.entries("headers")
        paths = fields.entries("map")
        for var, path in paths.items():
            if not isinstance(path, str) or not path or len(path) > 100:
                fields.refuse(f"`map.{var}` has to be a path into the answer, such as `data.name`", at=f"map.{var}")
        return HttpNode(
            name,
            fields.string("method", default="GET", choices=METHODS),
            fields.template(fields.value("url"), "url"),
            fields.identifier("goto"),
            tuple((header, fields.template(value, f"headers.{header}")) for header, value in headers.items()),
            self._body(fields, fields.value("body"), "body", 1),
            fields.integer("timeout_ms", 2000, 100, MAX_TIMEOUT_MS) or MAX_TIMEOUT_MS,
            tuple((var, str(path)) for var, path in paths.items()),
            self._optional_branch(fields, name, "on_error"),
            self._optional_branch(fields, name, "on_timeout"),
        )

    def _body(self, fields: DocumentFields, value: Any, place: str, depth: int) -> Any:
        if depth > 5:
            fields.refuse(f"`{place}` is nested deeper than 5 levels", at=place)
            return None
        match value:
            case str():
                return fields.template(value, place)
            case Mapping():
                return {str(key): self._body(fields, each, f"{place}.{key}", depth + 1) for key, each in value.items()}
            case list() | tuple():
                return [self._body(fields, each, place, depth + 1) for each in value]
        return value

    def _pay(self, fields: DocumentFields, name: str) -> Node:
        kind = fields.string("kind", choices=PAYMENT_KINDS)
        to_phone_number = fields.optional_expression("to_phone_number")
        if (kind == "transfer") != (to_phone_number is not None):
            fields.refuse("`to_phone_number` belongs to a transfer, and a transfer needs it", at="to_phone_number")
        amount, phone_number = fields.expression("amount"), fields.expression("phone_number")
        accepted, rejected = self._branch(fields, name, "accepted"), self._branch(fields, name, "rejected")
        account = self._account(fields, "account")
        return PayNode(name, kind, amount, phone_number, accepted, rejected, to_phone_number, account)

    def _sms(self, fields: DocumentFields, name: str) -> Node:
        return SmsNode(name, fields.expression("to"), fields.text("text"), fields.identifier("goto"))

    def _handover(self, fields: DocumentFields, name: str) -> Node:
        url, protocol = fields.string("url"), fields.string("protocol", "neutral", PROTOCOLS)
        return HandoverNode(name, url, protocol, self._optional_branch(fields, name, "on_error"))

    def _end(self, fields: DocumentFields, name: str) -> Node:
        return EndNode(name, fields.text("text"))

    def _account(self, fields: DocumentFields, name: str) -> Expression | None:
        """Read an account: `main`, or an expression whose value is `main` or a phone number."""
        return constant("main") if fields.value(name) == "main" else fields.optional_expression(name)

    def _assignments(self, fields: DocumentFields, name: str) -> Assignments:
        pairs = [(var, fields.compiled(value, f"{name}.{var}")) for var, value in fields.entries(name).items()]
        return tuple((var, expression) for var, expression in pairs if expression is not None)

    def _invalid(self, fields: DocumentFields) -> Invalid:
        if fields.value("invalid") is None:
            return Invalid()
        invalid = fields.within(fields.value("invalid"), "invalid")
        read = Invalid(
            invalid.optional_text("text"), invalid.integer("max", 3, 1, 20) or 3, invalid.optional_identifier("goto")
        )
        invalid.refuse_others()
        return read

    def _branch(self, fields: DocumentFields, node: str, name: str) -> str:
        """Read the next node of an outcome: its name, `{"goto": name}`, or `{"end": text}` for a last screen."""
        if fields.value(name) is None:
            ways = '{"goto": "..."} or {"end": {...}}'
            fields.refuse(f"`{name}` is missing; write a node's name, {ways}", at=name)
        return self._optional_branch(fields, node, name) or ""

    def _optional_branch(self, fields: DocumentFields, node: str, name: str) -> str | None:
        raw = fields.value(name)
        if raw is None or isinstance(raw, str):
            return fields.optional_identifier(name)
        branch = fields.within(raw, name)
        goto, end = branch.optional_identifier("goto"), branch.optional_text("end")
        branch.refuse_others()
        if (goto is None) == (end is None):
            branch.refuse(f"`{name}` needs either `goto` or `end`")
        if end is None:
            return goto
        self.extra[f"{node}.{name}"] = EndNode(f"{node}.{name}", end)
        return f"{node}.{name}"
