"""Expensive parts that are the same in all tests, made once: routes, templates, names in SQL, slow hashes."""

from __future__ import annotations

from functools import cache
from typing import Any

import peewee
from argon2 import PasswordHasher
from flask import Flask
from jinja2.bccache import Bucket, BytecodeCache
from werkzeug.routing import Rule

from ussd_server.security import passwords

SHIPPED_HASHER = passwords._HASHER
SHIPPED_NAMES = {peewee.Entity: peewee.Entity.__sql__, peewee.Field: peewee.Field.__sql__}


def compile_each_route_once() -> None:
    """Let applications of this process share their compiled routes, which take longer than most tests."""
    compile_route, compiled = Rule.compile, dict[tuple[object, ...], dict[str, object]]()

    def compile_once(rule: Rule) -> None:
        key = rule.rule, rule.subdomain, rule.host, rule.merge_slashes, repr(rule.defaults)
        if key not in compiled:
            before = vars(rule).copy()
            compile_route(rule)
            made = {name: value for name, value in vars(rule).items() if before.get(name) is not value}
            compiled[key] = made | {"arguments": rule.arguments}
        vars(rule).update(compiled[key])

    Rule.compile = compile_once  # type: ignore[method-assign]


class _CompiledTemplates(BytecodeCache):
    def __init__(self) -> None:
        self._kept = dict[str, bytes]()

    def load_bytecode(self, bucket: Bucket) -> None:
        if kept := self._kept.get(bucket.key):
            bucket.bytecode_from_string(kept)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self._kept[bucket.key] = bucket.bytecode_to_string()


def compile_each_template_once() -> None:
    """Let applications of this process share their compiled templates."""
    Flask.jinja_options = Flask.jinja_options | {"bytecode_cache": _CompiledTemplates()}


def quote_each_name_once() -> None:
    """Let queries share the quoted names of their columns: Peewee takes longer to write a query than to run it."""

    @cache
    def quoted(quotes: str, *path: str) -> str:
        return str(peewee.quote([part.replace(quotes[0], quotes) for part in path], quotes))

    def write_entity(entity: Any, context: Any) -> Any:
        return context.literal(quoted(context.state.quote or '""', *entity._path))

    def write_field(field: Any, context: Any) -> Any:
        quotes = context.state.quote or '""'
        if context.state.scope == peewee.SCOPE_VALUES:
            return context.literal(quoted(quotes, field.column_name))
        table = field.model._meta.table
        if table._alias:
            context.alias_manager[table] = table._alias
        return context.literal(quoted(quotes, context.alias_manager[table], field.column_name))

    peewee.Entity.__sql__ = write_entity
    peewee.Field.__sql__ = write_field


def hash_passwords_quickly() -> None:
    """Hash passwords of this process in a microsecond instead of 30 ms; the service's own processes hash as ever."""
    passwords._HASHER = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
