"""Menus, service codes, the channels of phone companies, and conversations."""

from __future__ import annotations

from typing import Any

import orjson
from peewee import BlobField, BooleanField, IntegerField, TextField

from ussd_server.database.columns import IdField, JsonField, MomentField, Table


class _OwnJson(JsonField):
    """JSON that we put together ourselves: no number in it is wider than 64 bits, and no text is half a character."""

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

    class Meta:
        table_name = "menus"


class MenuVersion(Table):
    """A published document. Never edited; conversations keep the version they began with."""

    menu_id = IdField()
    version = IntegerField()
    client_id = IdField()
    document = JsonField()
    published_at = MomentField()

    class Meta:
        table_name = "menu_versions"
        primary_key = False


class ServiceCode(Table):
    """A code that phones dial (`*384*123#`), whose it is, and which menu answers."""

    code = TextField(primary_key=True)
    client_id = IdField()
    menu_id = IdField(null=True)
    created_at = MomentField()

    class Meta:
        table_name = "service_codes"


class Channel(Table):
    """A phone company's way in. The path's secret is kept as keyed digest, for looking up, and sealed.

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

    class Meta:
        table_name = "channels"


class UssdSession(Table):
    """A conversation, whole in one row, so that a step is one read and one write.

    `state` is the engine's; `turns` lists every turn: what was entered (secrets masked), the screen, its node, the time
    it took, and the length and keyed digest of the gateway's text, from which repeats are told. `working_until` is set
    while a step is being worked on, also when the session ends meanwhile. `due_at` is when the worker looks whether the
    session's time is up; steps move `expires_at` on and leave `due_at` as it is, so that they change no index.
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
    state = _OwnJson()
    turns = _OwnJson()
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

    class Meta:
        table_name = "ussd_sessions"


class SubscriberLanguage(Table):
    """The language a phone number last chose with a client."""

    client_id = IdField()
    phone_number = TextField()
    language = TextField()

    class Meta:
        table_name = "subscriber_languages"
        primary_key = False
