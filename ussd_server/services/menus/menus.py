"""Menus: drafts, checks, published versions that never change, and the service codes that lead to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from peewee import SQL, ModelSelect, fn

from ussd_server.context import RequestContext
from ussd_server.database.unit_of_work import dialect, for_update, unit_of_work
from ussd_server.menus.checks.width_proof import FullestScreen
from ussd_server.menus.document.bounds import MAX_SCRIPTS, WorkExceededError
from ussd_server.menus.document.variables import ProviderStates
from ussd_server.menus.engine.engine import dialled_entries
from ussd_server.menus.engine.navigator import SessionFacts
from ussd_server.menus.source.yaml_text import Places, write_yaml
from ussd_server.menus.tools.schema import menu_schema
from ussd_server.menus.tools.scripts import left_to_fill_in
from ussd_server.menus.tools.walk import Act, Walk, script_of, walk
from ussd_server.models.ussd import Menu, MenuVersion, ServiceCode
from ussd_server.security.key_ring import call_secrets
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.gates.sending import SendingGate
from ussd_server.services.menus import documents, messages
from ussd_server.services.operator_names import require_reason
from ussd_server.services.pages import require_row
from ussd_server.services.runtime import Runtime
from ussd_server.services.transactions.messages import PayingMenu
from ussd_server.status import Code, ServiceError
from ussd_server.values import new_id

MAX_MENUS = 200
# The width proof counts twenty characters for a service code.
_SERVICE_CODE = re.compile(r"(?=.{3,20}\Z)\*[0-9]+(?:\*[0-9]+)*#")
_MENU_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class MenuService:
    def __init__(self, runtime: Runtime) -> None:
        self._clock, self._keyring, self._guard = runtime.clock, runtime.keyring, runtime.guard
        self._gate = SendingGate(runtime)
        self._provider_states = ProviderStates(runtime.providers.takes_payments)
        self._session_life_seconds = runtime.settings.session_life_seconds

    def save_draft(self, request: messages.SaveDraft, context: RequestContext) -> messages.CheckReport:
        """Save a draft, even one that cannot be published; returns the report of its check.

        The document may leave out its `id`. Raises INVALID_REQUEST, with line and column, for a text that is not YAML
        or JSON; for a document that names another menu; unless the id is 1 to 64 letters, digits and `_.-`; and for
        more than 200 menus of a client.
        """
        context.require("menus:write")
        if not _MENU_ID.fullmatch(request.menu_id):
            raise ServiceError(Code.INVALID_REQUEST, "menu_id: Must be 1 to 64 letters, digits, dots, dashes or _.")
        document, places = documents.read_source(request)
        now = self._clock.now()
        saved = {"draft": document, "draft_saved_at": now}
        with unit_of_work():
            if not Menu.update(saved).where(_is(request.menu_id, context)).execute():
                if Menu.select().where(Menu.client_id == context.client_id).count() >= MAX_MENUS:
                    raise ServiceError(Code.INVALID_REQUEST, f"A client may have at most {MAX_MENUS} menus")
                Menu.insert(id=new_id(now), client_id=context.client_id, name=request.menu_id, **saved).on_conflict(
                    conflict_target=(Menu.client_id, Menu.name), update=saved
                ).execute()
            menu = Menu.select(Menu.id, Menu.client_id).where(_is(request.menu_id, context)).get()
            _write_audit_event("menu.saved", menu, context, now)
        return self._report(request.menu_id, context, document, places)

    def check(self, request: messages.CheckMenu, context: RequestContext) -> messages.CheckReport:
        """Check a menu's draft, or the given document. Raises NOT_FOUND for a menu without a draft."""
        context.require("menus:read")
        if request.document is None and request.source is None:
            return self._report(request.menu_id, context, find_menu(request.menu_id, context).draft)
        return self._report(request.menu_id, context, *documents.read_source(request))

    def publish(self, menu_id: str, context: RequestContext) -> messages.VersionView:
        """Publish the draft as a new version. Publishing the current version again changes nothing.

        Raises MENU_INVALID with the first error when the check finds one or a script fails; INSUFFICIENT_SCOPE, which
        names the node, for a menu that sends money where the caller may not (`SendingGate.require_publishable`).
        Active sessions keep the version they began with. A current version whose publisher was revoked is published
        anew.
        """
        context.require("menus:write")
        menu = find_menu(menu_id, context)
        report = self._report(menu_id, context, menu.draft)
        if not report.passes:
            raise ServiceError(Code.MENU_INVALID, documents.sentence_of(report.errors[0]))
        return self._publish(menu, menu.draft, context)

    def publish_again(self, menu_id: str, context: RequestContext) -> messages.VersionView:
        """Publish the current version anew in the caller's name, because its publisher was revoked; else as `publish`.

        Raises NOT_FOUND for a menu that was never published.
        """
        context.require("menus:write")
        menu = find_menu(menu_id, context)
        return self._publish(menu, _require_version(menu, menu.published_version or 0).document, context)

    def _publish(self, menu: Menu, document: dict[str, Any], context: RequestContext) -> messages.VersionView:
        sends_money = self._require_may_pay(document, context)
        with unit_of_work():
            row_id, in_force = _lock(menu.id)
            current = documents.find_version(row_id, in_force) if in_force else None
            if (
                current is not None
                and current.document == document
                and not (sends_money and self._fault_of_publisher(current))
            ):
                return _version_view(menu.name, current, in_force)
            newest = MenuVersion.select(fn.MAX(MenuVersion.version)).where(MenuVersion.menu_id == row_id).scalar()
            row = MenuVersion(
                menu_id=row_id,
                version=(newest or 0) + 1,
                client_id=context.client_id,
                document=document,
                published_at=self._clock.now(),
                key_id=context.caller.key_id,
                user_id=context.caller.user_id,
            )
            row.save(force_insert=True)
            Menu.update(published_version=row.version).where(Menu.id == row_id).execute()
            _write_audit_event("menu.published", menu, context, row.published_at)
        return _version_view(menu.name, row, row.version)

    def fault(self, menu_id: str, context: RequestContext) -> str | None:
        """Why the current version of a menu sends no money any more; None where it does, or never did."""
        context.require("menus:read")
        menu = find_menu(menu_id, context)
        current = documents.find_version(menu.id, menu.published_version) if menu.published_version else None
        if current is None or documents.paying_node(current.document) is None:
            return None
        return self._fault_of_publisher(current)

    def _fault_of_publisher(self, version: MenuVersion) -> str | None:
        return self._gate.fault_of_publisher(version.client_id, PayingMenu(version.menu_id, version.version))

    def _require_may_pay(self, document: dict[str, Any], context: RequestContext) -> bool:
        """Return whether a document sends money. Raises INSUFFICIENT_SCOPE where the caller may not let menus do so."""
        node = documents.paying_node(document)
        if node is not None:
            self._gate.require_publishable(node, context)
        return node is not None

    def roll_back(self, request: messages.RollBack, context: RequestContext) -> messages.VersionView:
        """Make an earlier version current again; the draft stays.

        Raises NOT_FOUND for an unknown version, INSUFFICIENT_SCOPE as `publish`, INVALID_REQUEST for an empty reason.
        """
        context.require("menus:write")
        menu = find_menu(request.menu_id, context)
        row = _require_version(menu, request.version)
        if request.reason is not None:
            require_reason(request.reason)
        self._require_may_pay(row.document, context)
        with unit_of_work():
            Menu.update(published_version=row.version).where(Menu.id == menu.id).execute()
            _write_audit_event("menu.rolled_back", menu, context, self._clock.now(), request.reason)
        return _version_view(request.menu_id, row, row.version)

    def list(self, context: RequestContext) -> tuple[messages.MenuSummary, ...]:
        """Return every menu of the client, by name."""
        context.require("menus:read")
        codes = _codes_by_menu(context.client_id)
        # Drafts may have 64 KiB each: the database reads their titles.
        title = fn.SUBSTR(SQL(dialect().json_value("draft", "'title'", "text")), 1, 100).alias("title")
        rows: ModelSelect[Any] = Menu.select(Menu.id, Menu.name, Menu.published_version, Menu.draft_saved_at, title)
        return tuple(
            messages.MenuSummary(
                row.name, row.title or "", row.published_version, row.draft_saved_at, codes.get(row.id, ())
            )
            for row in rows.where(Menu.client_id == context.client_id).order_by(Menu.name)
        )

    def get(self, menu_id: str, context: RequestContext) -> messages.MenuView:
        """Return a menu with its documents. Raises NOT_FOUND for a menu that the client does not have."""
        context.require("menus:read")
        menu = find_menu(menu_id, context)
        current = documents.find_version(menu.id, menu.published_version) if menu.published_version else None
        return messages.MenuView(
            menu_id=menu.name,
            title=menu.draft["title"] if isinstance(menu.draft.get("title"), str) else "",
            published_version=menu.published_version,
            draft_saved_at=menu.draft_saved_at,
            codes=_codes_by_menu(context.client_id).get(menu.id, ()),
            draft=menu.draft,
            published=None if current is None else current.document,
        )

    def versions(self, menu_id: str, context: RequestContext) -> tuple[messages.VersionView, ...]:
        """Return every published version of a menu, newest first."""
        context.require("menus:read")
        menu = find_menu(menu_id, context)
        rows = MenuVersion.select(MenuVersion.version, MenuVersion.published_at).where(MenuVersion.menu_id == menu.id)
        rows = rows.order_by(MenuVersion.version.desc())
        return tuple(_version_view(menu.name, row, menu.published_version) for row in rows)

    def graph(self, request: messages.GetGraph, context: RequestContext) -> messages.GraphView:
        """Return the nodes and edges of a menu. Raises NOT_FOUND for an unknown menu or version."""
        context.require("menus:read")
        menu = find_menu(request.menu_id, context)
        version = request.version or menu.published_version
        raw = _require_version(menu, version).document if version else menu.draft
        parts, drawing = documents.graph_of(raw)
        return messages.GraphView(menu.name, version, parts.nodes, parts.edges, drawing)

    def document(self, menu_id: str, version: int | None, context: RequestContext) -> dict[str, Any]:
        """Return a version of a menu, the draft for None. Raises NOT_FOUND for an unknown menu or version."""
        context.require("menus:read")
        menu = find_menu(menu_id, context)
        document: dict[str, Any] = menu.draft if version is None else _require_version(menu, version).document
        return document

    def draw(self, request: messages.DrawMenu, context: RequestContext) -> str:
        """Return the SVG of a menu. Raises the errors of `document`, as the next three methods do."""
        raw = self.document(request.menu_id, request.version, context)
        return documents.drawing_of(raw, request.notes, request.marks)

    def fullest_screens(self, request: messages.NameVersion, context: RequestContext) -> Sequence[FullestScreen]:
        """Return the fullest screen of each language on each network; none for a menu that cannot be walked."""
        raw = self.document(request.menu_id, request.version, context)
        try:
            return documents.fullest_screens_of(raw)
        except (ServiceError, WorkExceededError):
            return []

    def text(self, request: messages.NameVersion, context: RequestContext) -> str:
        return documents.yaml_of(self.document(request.menu_id, request.version, context))

    def difference(self, request: messages.CompareVersions, context: RequestContext) -> tuple[str, ...]:
        """Return the difference of two versions (`documents.difference_of`)."""
        old, new = (
            self.text(messages.NameVersion(request.menu_id, version), context).splitlines()
            for version in (request.old, request.new)
        )
        return documents.difference_of(old, new)

    def walk(self, request: messages.WalkMenu, context: RequestContext) -> messages.WalkView:
        """Return every screen of a walk, without money, network or state on the server; at most 99 acts are done.

        Raises NOT_FOUND for a menu or version that the client does not have, and MENU_INVALID with the first error for
        a draft that cannot be walked. A draft whose screens are too long can.
        """
        walked = self._walk(request, context)
        payments = tuple(walked.simulator.payments.values())
        return messages.WalkView(request.menu_id, request.version, walked.simulator.is_over, walked.screens, payments)

    def make_script(self, request: messages.MakeScript, context: RequestContext) -> messages.ScriptView:
        """Return the script that repeats a walk; with `save`, also add it to the menu's draft.

        Raises the errors of `walk`, and INVALID_REQUEST when the draft has 50 scripts already.
        """
        script = script_of(self._walk(request.walk, context), request.name)
        if request.save:
            draft = find_menu(request.walk.menu_id, context).draft
            scripts = draft.get("scripts") or []
            if not isinstance(scripts, list) or len(scripts) >= MAX_SCRIPTS:
                raise ServiceError(Code.INVALID_REQUEST, f"A menu may have at most {MAX_SCRIPTS} scripts")
            document = {**draft, "scripts": [*scripts, script]}
            self.save_draft(messages.SaveDraft(request.walk.menu_id, document), context)
        return messages.ScriptView(script, write_yaml({"scripts": [script]}), left_to_fill_in(script))

    def _walk(self, request: messages.WalkMenu, context: RequestContext) -> Walk:
        document = documents.usable_document(self.document(request.menu_id, request.version, context))
        facts = SessionFacts(
            request.phone_number,
            request.service_code,
            request.network,
            "walk",
            providers=self._provider_states.of(context.client_id),
        )
        acts = [Act(each.kind.value, each.text) for each in request.acts]
        return walk(document, facts, acts, request.language, dialled_entries(request.entries))

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a menu document."""
        return menu_schema()

    def bind_code(self, request: messages.BindCode, context: RequestContext) -> messages.CodeView:
        """Bind a code to a menu.

        Raises NOT_FOUND for a code or a menu that the client does not have, INVALID_REQUEST for a menu that was never
        published, INSUFFICIENT_SCOPE as `publish`.
        """
        context.require("menus:write")
        menu = find_menu(request.menu_id, context)
        code = service_code(request.service_code)
        if menu.published_version is None:
            raise ServiceError(Code.INVALID_REQUEST, "menu_id: The menu has no published version; publish it first.")
        self._require_may_pay(_require_version(menu, menu.published_version).document, context)
        is_theirs = (ServiceCode.code == code) & (ServiceCode.client_id == context.client_id)
        with unit_of_work():
            if not ServiceCode.update(menu_id=menu.id).where(is_theirs).execute():
                raise ServiceError(Code.NOT_FOUND, "Service code not found")
            _write_audit_event("menu.code_bound", menu, context, self._clock.now())
        return view_of_code(ServiceCode.get(is_theirs))

    def codes(self, context: RequestContext) -> tuple[messages.CodeView, ...]:
        context.require("menus:read")
        rows = ServiceCode.select().where(ServiceCode.client_id == context.client_id).order_by(ServiceCode.code)
        return tuple(view_of_code(row) for row in rows)

    def call_secrets(self, context: RequestContext) -> Sequence[bytes]:
        """Return the secrets that sign requests of menus to the client's server, newest first."""
        context.require_operator()
        return call_secrets(self._keyring, context.client_id)

    def _report(
        self, menu_id: str, context: RequestContext, raw: dict[str, Any], places: Callable[[], Places] | None = None
    ) -> messages.CheckReport:
        pin_lengths = documents.pin_lengths_of_others(menu_id, raw, context.client_id)
        report = documents.check_document(raw, places, self._guard, self._session_life_seconds, pin_lengths)
        return messages.CheckReport(menu_id, report.passes, report.errors, report.warnings)


def _is(menu_id: str, context: RequestContext) -> Any:
    return (Menu.client_id == context.client_id) & (Menu.name == menu_id)


def find_menu(menu_id: str, context: RequestContext) -> Menu:
    """Return a menu of the client. Raises NOT_FOUND for any other."""
    menu = Menu.get_or_none(_is(menu_id, context)) if _MENU_ID.fullmatch(menu_id) else None
    return require_row(menu, "Menu")


def _require_version(menu: Menu, version: int) -> MenuVersion:
    return require_row(documents.find_version(menu.id, version), "Menu version")


def _write_audit_event(
    action: str, menu: Menu, context: RequestContext, now: datetime, reason: str | None = None
) -> None:
    write_audit_event(action, context, now, client_id=menu.client_id, object_id=menu.id, reason=reason)


def _lock(menu_id: str) -> tuple[str, int | None]:
    """Lock a menu until the unit of work ends; returns its current version."""
    row = for_update(Menu.select(Menu.id, Menu.published_version).where(Menu.id == menu_id)).get()
    return row.id, row.published_version


def _version_view(menu_id: str, row: MenuVersion, in_force: int | None) -> messages.VersionView:
    return messages.VersionView(menu_id, row.version, row.published_at, row.version == in_force)


def _codes_by_menu(client_id: str) -> dict[str, tuple[str, ...]]:
    codes: dict[str, tuple[str, ...]] = {}
    for row in ServiceCode.select().where(ServiceCode.client_id == client_id).order_by(ServiceCode.code):
        codes[row.menu_id] = (*codes.get(row.menu_id, ()), row.code)
    return codes


def service_code(text: str) -> str:
    """Return a service code as it is stored, `*384*123#`; adds a missing hash. Raises INVALID_REQUEST if malformed."""
    code = text if text.endswith("#") else f"{text}#"
    if not _SERVICE_CODE.fullmatch(code):
        raise ServiceError(Code.INVALID_REQUEST, "service_code: Must be a code such as *384*123#.")
    return code


def view_of_code(row: ServiceCode) -> messages.CodeView:
    menu = Menu.get_or_none(Menu.id == row.menu_id) if row.menu_id else None
    return messages.CodeView(row.code, row.client_id, menu.name if menu else None, row.created_at)
