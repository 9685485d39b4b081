"""Menus, service codes, channels and USSD sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import orjson
from peewee import BlobField, BooleanField, IntegerField, TextField

from ussd_server.database.tables import IdField, JsonField, MomentField, Table


class _FastJson(JsonField):
    """JSON that only the service writes: no number is wider than 64 bits, no text has a lone surrogate."""

    def db_value(self, value: Any) -> str | None:
        return None if value is None else orjson.dumps(value).decode()

    def python_value(self, value: str | None) -> Any:
        return None if value is None else orjson.loads(value)


class Menu(Table):
    """A client's menu: its draft and the number of the version in force. `name` is the menu document's id."""

    id = IdField(primary_key=True)
    client_id = IdField()
    name = TextField()
    draft = JsonField()
    draft_saved_at = MomentField()
    published_version = IntegerField(null=True)


class MenuVersion(Table):
    """A published document. It never changes; sessions keep the version they began with.

    `key_id` or `user_id` is the key or the person that published it; both are null for an operator.
    """

    menu_id = IdField()
    version = IntegerField()
    client_id = IdField()
    document = JsonField()
    published_at = MomentField()
    key_id = IdField(null=True)
    user_id = IdField(null=True)

    class Meta:
        primary_key = False


class ServiceCode(Table):
    """A code that phones dial (`*384*123#`), its client and its menu."""

    code = TextField(primary_key=True)
    client_id = IdField()
    menu_id = IdField(null=True)
    created_at = MomentField()


class Channel(Table):
    """One gateway connection. `secret_digest` is the HMAC of the path's secret, `secret_sealed` the secret, encrypted.

    `codes` null allows every code.
    """

    id = IdField(primary_key=True)
    client_id = IdField(null=True)
    name = TextField()
    adapter = TextField()
    secret_digest = BlobField(unique=True)
    secret_sealed = BlobField()
    codes = JsonField(null=True)
    settings = JsonField()
    is_active = BooleanField()
    created_at = MomentField()


class SmppLink(Table):
    """How a channel of the adapter `smpp` reaches its operator. `id` is the channel's.

    `password_sealed` is encrypted. `authority` is the certificate (PEM) that the operator's is checked against, null
    for a public one.
    """

    id = IdField(primary_key=True)
    url = TextField()
    system_id = TextField()
    password_sealed = BlobField()
    dialect = TextField()
    binds = IntegerField()
    submit_window = IntegerField()
    authority = TextField(null=True)

    class Meta:
        table_name = "smpp_links"


class SmppBind(Table):
    """One bind of a process, as that process wrote it at `seen_at`. `reason` says why it is not bound."""

    id = TextField(primary_key=True)
    channel_id = IdField()
    process = TextField()
    number = IntegerField()
    state = TextField()
    reason = TextField()
    since = MomentField()
    seen_at = MomentField()
    counts = JsonField()

    class Meta:
        table_name = "smpp_binds"


CONSOLE_CALLS = "console-"
"""How the names of sessions begin that the console's phone dials."""


class UssdSession(Table):
    """A session in one row, so that a step is one read and one write.

    `state` belongs to the menu engine. `turns` lists every turn: the entry (secrets masked), the screen, its node, the
    time it took, and the length and HMAC of the gateway's text, which identify repeats. `working_until` is set while a
    step is in progress, even if the session ends during the step. At `due_at` the worker checks whether the session has
    expired; a step moves `expires_at` but not `due_at`, so that it changes no index.
    """

    id = IdField(primary_key=True)
    client_id = IdField()
    key_id = IdField(null=True)
    channel_id = IdField(null=True)
    provider_session_id = TextField(null=True)
    phone_number = TextField()
    service_code = TextField()
    network = TextField()
    status = TextField()
    end_reason = TextField(null=True)
    menu_id = IdField()
    menu_version = IntegerField()
    node = TextField()
    language = TextField()
    turn = IntegerField()
    state = _FastJson()
    turns = _FastJson()
    action = TextField()
    message = TextField()
    transaction_id = IdField(null=True)
    working_token = TextField(null=True)
    working_until = MomentField(null=True)
    created_at = MomentField()
    last_seen_at = MomentField()
    expires_at = MomentField()
    due_at = MomentField()
    ended_at = MomentField(null=True)
    traceparent = TextField(null=True)

    def is_over(self, now: datetime) -> bool:
        return self.ended_at is not None or self.expires_at <= now

    @property
    def is_test(self) -> bool:
        """Whether the console's phone dialled. Such sessions do not count as drop-offs."""
        return (self.provider_session_id or "").startswith(CONSOLE_CALLS)


class ShownOutcome(Table):
    """A payment whose outcome was shown to its subscriber. `session_id` is the session that paid or that showed it."""

    transaction_id = IdField(primary_key=True)
    session_id = IdField()
    shown_at = MomentField()


class SubscriberPin(Table):
    """The PIN of a subscriber with a client: `pin_sealed` is its argon2 hash, encrypted; null after a reset.

    `wrong_tries` counts since the last right PIN. `last_step` is the HMAC of the step and the PIN that were counted
    last: a step that is done again counts once. `locked_at` is the last lock, `locked_until` null where none holds.
    """

    id = IdField(primary_key=True)
    client_id = IdField()
    phone_number = TextField()
    pin_sealed = BlobField(null=True)
    wrong_tries = IntegerField()
    last_step = TextField(null=True)
    locked_at = MomentField(null=True)
    locked_until = MomentField(null=True)
    changed_at = MomentField()


class SubscriberLanguage(Table):
    """The language that a subscriber chose last in a client's menus."""

    client_id = IdField()
    phone_number = TextField()
    language = TextField()

    class Meta:
        primary_key = False
