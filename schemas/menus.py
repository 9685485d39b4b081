"""Menus, their versions and service codes in the API (contract 3.5)."""

from __future__ import annotations

from typing import Any

from marshmallow import INCLUDE, fields, validate

from schemas.envelopes import Body, Query, Record
from schemas.fields import JsonObject, Text, Timestamp, Whole

_LONGEST_DOCUMENT = 1_000_000
_HIGHEST_VERSION = 1_000_000


class SaveDraftBody(Body):
    """The whole body is a menu document (`/menu.schema.json`), as JSON or YAML 1.2. The menu check validates it."""

    takes_yaml = True
    document = JsonObject(longest=_LONGEST_DOCUMENT)

    class Meta:
        unknown = INCLUDE

    def load(self, data: Any, **options: Any) -> Any:
        """Load the whole body as the document."""
        return super().load({"document": data}, **options)


class CheckMenuBody(SaveDraftBody):
    """A menu document, or an empty body for the saved draft."""

    document = JsonObject(longest=_LONGEST_DOCUMENT, allow_none=True)

    def load(self, data: Any, **options: Any) -> Any:
        """Load the whole body as the document; None when the body is empty."""
        return super().load(data or None, **options)


class RollBackBody(Body):
    """The version to put in force again."""

    example = {"version": 1}

    version = Whole(required=True, lowest=1, highest=_HIGHEST_VERSION)


class BindCodeBody(Body):
    """The menu that answers a code."""

    example = {"menu_id": "shop"}

    menu_id = Text(required=True, longest=64)


class GetGraphQuery(Query):
    """The version of the graph; the draft by default."""

    version = Whole(lowest=1, highest=_HIGHEST_VERSION)


class ReplayBody(Body):
    """The conversations to replay: session ids, or a period."""

    example = {"from": "2026-11-20T00:00:00Z", "to": "2026-11-21T00:00:00Z"}

    session_ids = fields.List(Text(longest=64), validate=validate.Length(1, 500))
    from_at = Timestamp(data_key="from")
    to_at = Timestamp(data_key="to")


class ReplayItemRecord(Record):
    """How a conversation goes in the draft. `turn`, `was` and `is` are those of the first difference."""

    session_id = fields.String()
    result = fields.String()
    turn = fields.Integer(allow_none=True)
    was = fields.String(allow_none=True)
    is_now = fields.String(data_key="is", allow_none=True)


class ReplayRecord(Record):
    """The conversations, in the order of the request, or newest first."""

    items = fields.List(fields.Nested(ReplayItemRecord()))


class FindingRecord(Record):
    """One error or warning.

    `language` to `screen` are set for a screen that does not fit. `line` and `column` are known for a document in the
    body; `suggestion` is the name that a misspelt one is nearest to.
    """

    rule = fields.String()
    message = fields.String()
    node = fields.String(allow_none=True)
    language = fields.String(allow_none=True)
    network = fields.String(allow_none=True)
    excess = fields.Integer(allow_none=True)
    unit = fields.String(allow_none=True)
    screen = fields.String(allow_none=True)
    line = fields.Integer(allow_none=True)
    column = fields.Integer(allow_none=True)
    suggestion = fields.String(allow_none=True)


class CheckReportRecord(Record):
    """The findings of a check; errors block publishing."""

    menu_id = fields.String()
    passes = fields.Boolean()
    errors = fields.List(fields.Nested(FindingRecord()))
    warnings = fields.List(fields.Nested(FindingRecord()))


class MenuSummaryRecord(Record):
    """A menu in a list."""

    menu_id = fields.String()
    title = fields.String()
    published_version = fields.Integer(allow_none=True)
    draft_saved_at = Timestamp()
    codes = fields.List(fields.String())


class MenuRecord(MenuSummaryRecord):
    """A menu with its documents."""

    draft = fields.Raw()
    published = fields.Raw()


class VersionRecord(Record):
    """A published version."""

    menu_id = fields.String()
    version = fields.Integer()
    published_at = Timestamp()
    in_force = fields.Boolean()


class CodeRecord(Record):
    """A service code and the menu that answers it."""

    service_code = fields.String()
    menu_id = fields.String(allow_none=True)
    created_at = Timestamp()


class GraphNodeRecord(Record):
    """A node in a graph; `rank` counts the steps from the start."""

    id = fields.String()
    type = fields.String()
    text = fields.String()
    rank = fields.Integer()


class GraphEdgeRecord(Record):
    """An edge from one node to another."""

    source = fields.String(data_key="from", attribute="from")
    target = fields.String(data_key="to", attribute="to")
    label = fields.String()


class GraphRecord(Record):
    """A menu as a graph, and as an SVG diagram."""

    menu_id = fields.String()
    version = fields.Integer(allow_none=True)
    nodes = fields.List(fields.Nested(GraphNodeRecord()))
    edges = fields.List(fields.Nested(GraphEdgeRecord()))
    svg = fields.String()


class MenuListRecord(Record):
    """The client's menus, by name."""

    items = fields.List(fields.Nested(MenuSummaryRecord()))


class VersionListRecord(Record):
    """A menu's versions, newest first."""

    items = fields.List(fields.Nested(VersionRecord()))


class CodeListRecord(Record):
    """The client's codes."""

    items = fields.List(fields.Nested(CodeRecord()))
