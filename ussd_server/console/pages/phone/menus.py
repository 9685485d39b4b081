"""Menus: seen, edited beside their check, published, rolled back, bound to codes, and tried on recorded sessions."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from flask import Response, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.formats import iso
from ussd_server.console.forms import FAULTS, done
from ussd_server.console.links import link_to
from ussd_server.console.pages.phone.phone import phone_beside
from ussd_server.console.tables import BEFORE, Column, DataTable, TableFilter, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext, marked
from ussd_server.services.menus import messages
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA

# A document of 64 KiB, in which a form may write each byte as three.
_MOST_BYTES = 256 * 1024
_COLUMNS = (
    Column("menu_id", "Menu", "code", link=lambda menu: url_for("console.show_menu", menu_id=menu.menu_id)),
    Column("title", "Title"),
    Column("state", "State", "status", value=lambda menu: "published" if menu.published_version else "draft"),
    Column("published_version", "Version", "number"),
    Column("codes", "Codes", value=lambda menu: " ".join(menu.codes), missing="none"),
    Column("draft_saved_at", "Draft saved", "moment"),
)

_EXAMPLES = Path(__file__).parents[3] / "menus" / "examples"
_EXAMPLE_TITLES = marked(
    {
        "savings_group": "A savings group",
        "school_fees": "School fees",
        "shop_bill": "A shop's bill",
        "loan": "A loan",
        "airtime": "Airtime",
        "clinic": "A clinic",
    }
)
_MOST_EXAMPLES = 5
_REPLAY_RESULTS = {
    messages.ReplayResult.SAME: "same screens",
    messages.ReplayResult.OTHER_SCREEN: "another screen",
    messages.ReplayResult.DEAD_END: "dead end",
    messages.ReplayResult.NOT_FOUND: "deleted since",
}
_REPLAY_COLUMNS = (
    Column("session_id", "Session", "id", link=lambda item: link_to("session", item.session_id)),
    Column("result", "Result"),
    Column("turn", "After entry", "number"),
    Column("was", "Was"),
    Column("is", "Would be", value=lambda item: item.is_now),
)
_BEGAN_FROM = TableFilter("from", "Began from", input_type="datetime-local", read=forms.local_moment)


@dataclass(frozen=True, slots=True)
class ShownDifference:
    """Sessions whose first difference is the same: their number, and the ids of some."""

    result: str
    turn: int
    was: str
    is_now: str
    count: int
    session_ids: list[str]


@console.page("GET", "/menus", needs="menus:read")
def list_menus(context: RequestContext) -> Response:
    """All menus of the client; a client has 200 at most."""
    menus: tuple[messages.MenuSummary, ...] = services().menus.list(context)
    table = DataTable(
        "Menus by name",
        _COLUMNS,
        menus,
        empty_title="No menu yet",
        empty_text="Upload one as YAML or JSON; the check says what to mend.",
    )
    return show_table("console/menus/list.html", table)


@console.page("GET", "/menus/new", needs="menus:write")
def new_menu(_: RequestContext) -> str:
    """The form of a new menu, with `?example=` filled in with one of the shipped ones."""
    example = request.args.get("example", "")
    text = (_EXAMPLES / f"{example}.yaml").read_text(encoding="utf-8") if example in _EXAMPLE_TITLES else ""
    menu_id = example.replace("_", "-") if text else ""
    if request.form:
        menu_id, text = request.form.get("menu_id", ""), _text()
    return render_template("console/menus/new.html", menu_id=menu_id, text=text, examples=_EXAMPLE_TITLES)


@console.page("POST", "/menus/new", needs="menus:write", max_body_bytes=_MOST_BYTES, form_on="new_menu")
def upload_menu(context: RequestContext) -> Any:
    """Save what was uploaded or typed as the draft of a menu, new or not."""
    menu_id = request.form.get("menu_id", "").strip()
    services().menus.save_draft(messages.SaveDraft(menu_id, source=_source(_text())), context)
    return done("The draft is saved. Try it with the phone before you publish it.", "show_menu", menu_id=menu_id)


@console.page("GET", "/menus/<menu_id>", needs="menus:read", shows="menu")
def show_menu(context: RequestContext, menu_id: str) -> str:
    menu = services().menus.get(menu_id, context)
    drop_offs = services().replays.drop_offs(menu_id, context)
    is_draft = request.args.get("of") == "draft" or menu.published_version is None
    version = None if is_draft else menu.published_version
    scripts = menu.draft.get("scripts")
    return render_template(
        "console/menus/menu.html",
        menu=menu,
        menu_id=menu_id,
        is_draft=is_draft,
        drop_offs=drop_offs,
        diagram=services().menus.draw(messages.DrawMenu(menu_id, version, notes=_notes(drop_offs)), context),
        report=services().menus.check(messages.CheckMenu(menu_id), context),
        leads_to_editor=context.may("menus:write"),
        screens=services().menus.fullest_screens(messages.NameVersion(menu_id), context),
        scripts=[each for each in scripts if isinstance(each, dict)] if isinstance(scripts, list) else [],
        versions=services().menus.versions(menu_id, context),
        codes=services().menus.codes(context),
        has_changed=menu.draft != menu.published,
        fault=services().menus.fault(menu_id, context),
    )


@console.page("GET", "/menus/<menu_id>/edit", needs="menus:write")
def edit_menu(context: RequestContext, menu_id: str) -> str:
    """The draft as text, with its check beside it."""
    text = services().menus.text(messages.NameVersion(menu_id), context)
    try:
        report = services().menus.check(messages.CheckMenu(menu_id, source=_source(text)), context)
    except ServiceError:
        # A draft that was saved as JSON can be too large as YAML. Its findings have no lines.
        report = services().menus.check(messages.CheckMenu(menu_id), context)
    return _editor(menu_id, text, report, None, context)


@console.page("POST", "/menus/<menu_id>/edit", needs="menus:write", max_body_bytes=_MOST_BYTES)
def save_menu(context: RequestContext, menu_id: str) -> Any:
    """Check the text, and save it as the draft unless only the check was wanted."""
    services().menus.get(menu_id, context)
    text, report, error = _text(), None, None
    try:
        if request.form.get("do") == "save":
            services().menus.save_draft(messages.SaveDraft(menu_id, source=_source(text)), context)
            return done("The draft is saved.", "edit_menu", menu_id=menu_id)
        report = services().menus.check(messages.CheckMenu(menu_id, source=_source(text)), context)
    except ServiceError as refusal:
        if refusal.code not in FAULTS:
            raise
        error = refusal
    if "HX-Request" in request.headers:
        line = _line_of(error)
        return render_template(
            "console/menus/report.html", menu_id=menu_id, report=report, refusal=error, error_line=line
        )
    return Response(_editor(menu_id, text, report, error, context), status=error.code.http_status if error else 200)


@console.page("POST", "/menus/<menu_id>/publish", needs="menus:write")
def publish_menu(context: RequestContext, menu_id: str) -> Any:
    """Publish the draft, unless it was saved anew after its changes were shown."""
    menu = services().menus.get(menu_id, context)
    if request.form.get("draft_saved_at") != iso(menu.draft_saved_at):
        return done(
            "The draft was not published: it was saved anew. Read what it changes now.",
            "show_menu_version",
            tone="warn",
            menu_id=menu_id,
            version="draft",
        )
    try:
        version = services().menus.publish(menu_id, context).version
    except ServiceError as error:
        if error.code is not Code.MENU_INVALID:
            raise
        text = gettext("The draft was not published: %(reason)s", reason=error.message)
        return done(text, "show_menu", tone="bad", menu_id=menu_id)
    text = gettext("Version %(version)s is published. New sessions use it; open ones keep theirs.", version=version)
    return done(text, "show_menu", menu_id=menu_id)


@console.page("POST", "/menus/<menu_id>/publish-again", needs="menus:write")
def publish_menu_again(context: RequestContext, menu_id: str) -> Any:
    """Publish the version in force in the name of the person who asks, because its publisher was revoked."""
    version = services().menus.publish_again(menu_id, context).version
    text = gettext("Version %(version)s is published. New sessions use it; open ones keep theirs.", version=version)
    return done(text, "show_menu", menu_id=menu_id)


@console.page("POST", "/menus/<menu_id>/rollback", needs="menus:write")
def roll_back_menu(context: RequestContext, menu_id: str) -> Any:
    version = _number(request.form.get("version", ""))
    services().menus.roll_back(messages.RollBack(menu_id, version, request.form.get("reason", "")), context)
    return done(
        gettext("Version %(version)s is in force again. The draft stays as it is.", version=version),
        "show_menu",
        menu_id=menu_id,
    )


@console.page("POST", "/menus/<menu_id>/codes", needs="menus:write", form_on="show_menu")
def bind_code(context: RequestContext, menu_id: str) -> Any:
    code = services().menus.bind_code(messages.BindCode(request.form.get("service_code", ""), menu_id), context)
    return done(gettext("%(code)s leads to this menu now.", code=code.service_code), "show_menu", menu_id=menu_id)


@console.page("GET", "/menus/<menu_id>/versions/<version>", needs="menus:read")
def show_menu_version(context: RequestContext, menu_id: str, version: str) -> str:
    """What a version changed, or the draft against the version in force, and its text."""
    menu = services().menus.get(menu_id, context)
    new = None if version == "draft" else _number(version)
    return _version_page(menu, menu.published_version if new is None else new - 1, new, context)


@console.page("GET", "/menus/<menu_id>/rollback/<version>", needs="menus:write")
def show_rollback(context: RequestContext, menu_id: str, version: str) -> str:
    """What a rollback to a version changes, and the form that does it."""
    menu = services().menus.get(menu_id, context)
    return _version_page(menu, menu.published_version, _number(version), context, rolls_back=True)


def _version_page(
    menu: messages.MenuView, old: int | None, new: int | None, context: RequestContext, *, rolls_back: bool = False
) -> str:
    """A version, or the draft for None, and how it differs from `old`."""
    menu_id = menu.menu_id
    may_publish = new is None and menu.draft != menu.published and context.may("menus:write")
    return render_template(
        "console/menus/version.html",
        menu=menu,
        version=new,
        old=old,
        rolls_back=rolls_back,
        report=services().menus.check(messages.CheckMenu(menu_id), context) if may_publish else None,
        difference=services().menus.difference(messages.CompareVersions(menu_id, old, new), context) if old else (),
        text=services().menus.text(messages.NameVersion(menu_id, new), context),
    )


@console.page("GET", "/menus/<menu_id>/replay", needs="menus:read")
def replay_sessions(context: RequestContext, menu_id: str) -> Response:
    """The newest sessions of a period in the draft, those that would go alike together. Nothing is paid or called."""
    context.require("ussd:read", "Your role does not allow this.")
    menu = services().menus.get(menu_id, context)
    items: tuple[messages.ReplayItem, ...] = ()
    error: ServiceError | None = None
    try:
        if _BEGAN_FROM.chosen:
            wanted = messages.ReplayMenu(menu_id, from_at=_BEGAN_FROM.value, to_at=BEFORE.value)
            items = services().replays.replay(wanted, context)
    except ServiceError as refusal:
        if refusal.code not in (Code.INVALID_REQUEST, Code.MENU_INVALID):
            raise
        error = refusal
    table = DataTable(
        gettext("Sessions in the draft of %(menu_id)s", menu_id=menu_id),
        _REPLAY_COLUMNS,
        items,
        filters=(_BEGAN_FROM, BEFORE),
    )
    counts = Counter(item.result for item in items)
    yesterday = services().clock.now().astimezone(KAMPALA) - timedelta(days=1)
    response = show_table(
        "console/menus/replay.html",
        table,
        menu=menu,
        error=error,
        differences=_replay_differences(items),
        counts={title: counts[result] for result, title in _REPLAY_RESULTS.items() if counts[result]},
        suggested_from=yesterday.strftime("%Y-%m-%dT%H:%M"),
    )
    return forms.refused(response, error) if error else response


def _editor(menu_id: str, text: str, report: Any, error: ServiceError | None, context: RequestContext) -> str:
    phone = phone_beside(f"draft:{menu_id}", context) if context.may("ussd:write") else None
    return render_template(
        "console/menus/edit.html",
        menu_id=menu_id,
        text=text,
        report=report,
        refusal=error,
        error_line=_line_of(error),
        phone=phone,
        diagram=services().menus.draw(messages.DrawMenu(menu_id), context) if phone is None else None,
    )


def _line_of(error: ServiceError | None) -> str | None:
    """The line that the sentence about a text that cannot be read names."""
    named = error and re.search(r"\(line (\d+), column \d+\)$", error.message)
    return named.group(1) if named else None


def _text() -> str:
    """The uploaded file, or what was typed."""
    file = request.files.get("file")
    if file is None or not file.filename:
        return request.form.get("text", "").replace("\r\n", "\n")
    try:
        file.seek(0)
        return str(file.read(), "utf-8")
    except UnicodeDecodeError:
        raise ServiceError(Code.INVALID_REQUEST, "The file is not a text in UTF-8.") from None


def _source(text: str) -> messages.SourceText:
    return messages.SourceText(text, is_yaml=not text.lstrip().startswith("{"))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9):
        raise ServiceError(Code.NOT_FOUND, "Menu version not found")
    return int(text)


def _notes(drop_offs: messages.DropOffView) -> dict[str, str]:
    return {
        item.node: f"{item.share:.0%} left here ({item.drop_offs:,} of {item.visits:,})"
        for item in drop_offs.items
        if item.drop_offs
    }


def _replay_differences(items: tuple[messages.ReplayItem, ...]) -> list[ShownDifference]:
    groups: dict[tuple[str, int, str, str], list[str]] = defaultdict(list)
    for item in items:
        if item.turn is not None:
            key = (_REPLAY_RESULTS[item.result], item.turn, item.was or "", item.is_now or "")
            groups[key].append(item.session_id)
    differences = [ShownDifference(*key, len(ids), ids[:_MOST_EXAMPLES]) for key, ids in groups.items()]
    return sorted(differences, key=lambda each: -each.count)
