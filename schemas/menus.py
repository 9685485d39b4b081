"""Menus, their versions and service codes in the API (contract 3.5)."""

from __future__ import annotations

from typing import Any

from marshmallow import INCLUDE

from schemas import fields

_LONGEST_DOCUMENT = 1_000_000
_HIGHEST_VERSION = 1_000_000


class SaveDraftBody(fields.Body):
    """The whole body is a menu document (`/menu.schema.json`), as JSON or YAML 1.2. The menu check validates it."""

    takes_yaml = True
    # The largest document without spaces has some six bytes for each.
    most_values = 12_000
    document = fields.JsonObject("A menu document.", longest=_LONGEST_DOCUMENT)

    class Meta:
        unknown = INCLUDE

    def load(self, data: Any, **options: Any) -> Any:
        """Load the whole body as the document."""
        return super().load({"document": data}, **options)


class CheckMenuBody(SaveDraftBody):
    """A menu document, or an empty body for the saved draft."""

    document = fields.JsonObject("A menu document.", longest=_LONGEST_DOCUMENT, allow_none=True)

    def load(self, data: Any, **options: Any) -> Any:
        """Load the whole body as the document; None when the body is empty."""
        return super().load(data or None, **options)


class RollBackBody(fields.Body):
    """The version to put in force again."""

    version = fields.Whole("A published version, counted from 1.", required=True, lowest=1, highest=_HIGHEST_VERSION)
    reason = fields.Text("Why, for the audit trail.", longest=200)


class BindCodeBody(fields.Body):
    """The menu that answers a code."""

    menu_id = fields.Text("The menu, by the `id` in its document.", required=True, longest=64)


class GetGraphQuery(fields.Query):
    """The version of the graph; the draft by default."""

    version = fields.Whole("A published version, counted from 1.", lowest=1, highest=_HIGHEST_VERSION)


class ReplayBody(fields.Body):
    """The conversations to replay: session ids, or a period."""

    session_ids = fields.ListOf("The sessions to replay, 1 to 500.", fields.Text(longest=64), most=500)
    from_at = fields.Timestamp("Replay the newest 500 sessions that began at this time or later.", data_key="from")
    to_at = fields.Timestamp("The end of the period, exclusive. Default: now.", data_key="to")
