"""The phone: it dials a code of the client through the gateway path, or walks through a draft."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from flask import Response, flash, redirect, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.calls import Call
from ussd_server.console.formats import NETWORKS
from ussd_server.console.session import decrypt_field, encrypt_field
from ussd_server.context import RequestContext
from ussd_server.languages import gettext
from ussd_server.services.menus.messages import ActKind, DrawMenu, MakeScript, MenuSummary
from ussd_server.services.sms.messages import ListSms, SmsView
from ussd_server.services.ussd.messages import HandsetView
from ussd_server.status import Code, ServiceError
from ussd_server.values import PHONE_NUMBER

_LONGEST_ENTRY = 160
_NEWEST_MESSAGES = 5
_WALKED_CODE = "*384*123#"
_KEYS = ("1 ", "2 abc", "3 def", "4 ghi", "5 jkl", "6 mno", "7 pqrs", "8 tuv", "9 wxyz", "* ", "0 +", "# ")


@dataclass(frozen=True, slots=True)
class _Target:
    """An entry that the phone can dial. `version` None is the draft."""

    value: str
    title: str
    menu_id: str
    version: int | None
    code: str


@console.page("GET", "/phone", needs="ussd:write")
def show_phone(context: RequestContext) -> Any:
    """A phone that has not dialled yet."""
    return _page(_chosen(request.args, _targets(context)), context)


@console.page("POST", "/phone", needs="ussd:write")
def use_phone(context: RequestContext) -> Any:
    """Do what a key of the phone says, and show the next screen."""
    form, targets = request.form, _targets(context)
    call = _chosen(form, targets)
    if form.get("do") == "choose":
        return _page(call, context)
    call = call.read(decrypt_field(form.get("call", "")))
    entry = form.get("press", call.typed + form.get("secret_entry", form.get("entry", "")))[:_LONGEST_ENTRY]
    call = replace(call, typed="")
    if typed := form.get("key", ""):
        return _page(call, context, entry=(entry + typed)[:_LONGEST_ENTRY])
    try:
        after = _after(call, form.get("do", "send"), entry, targets, context)
    except ServiceError as error:
        dialled = entry if call.line == "idle" else ""
        return _page(replace(call, line="idle", acts=()), context, error=error, entry=dialled)
    sends = after.line == "open" and (call.line == "idle" or after.acts != call.acts)
    return _page(after, context, sends=sends)


@console.page("GET", "/phone/messages", needs="messages:read")
def show_phone_messages(context: RequestContext) -> str:
    """The live part of the phone: the newest messages of its number."""
    number = forms.phone_number(request.args.get("phone_number", "")) or Call().phone_number
    return render_template("console/phone/messages.html", phone_number=number, messages=_messages(number, context))


@console.page("POST", "/phone/script", needs="menus:write")
def save_walk(context: RequestContext) -> Any:
    """Save the call as a script of the menu's draft."""
    targets = _targets(context)
    call = _chosen(request.form, targets).read(decrypt_field(request.form.get("call", "")))
    target = _find(targets, call.target)
    if target is None or call.line == "idle":
        raise ServiceError(Code.INVALID_REQUEST, "Dial first: there is no walk to save.")
    name = request.form.get("name", "").strip() or "a walk from the console"
    walk = call.as_walk(target.menu_id, target.version, target.code or _WALKED_CODE)
    script = services().menus.make_script(MakeScript(walk, name[:60], save=True), context)
    flash(gettext("Saved as a script of the draft of %(menu_id)s.", menu_id=target.menu_id), "good")
    if script.left_out:
        flash("What you typed into secret entries was left out. Fill in made-up ones before you publish.", "warn")
        return redirect(url_for("console.edit_menu", menu_id=target.menu_id), 303)
    return redirect(url_for("console.show_phone", target=call.target), 303)


def _after(call: Call, act: str, entry: str, targets: Sequence[_Target], context: RequestContext) -> Call:
    """The call after one act. Acts that make no sense now change nothing."""
    if call.line == "idle":
        return _dial(call, entry, targets) if act in ("send", "call") else call
    if act == "redial" and not call.is_full:
        return call.doing(ActKind.REDIAL)
    if call.line != "open" or call.is_full:
        return call
    if act == "retry":
        return call.doing(ActKind.RETRY)
    if act == "drop":
        return replace(call, line="dropped")
    if act == "hang_up":
        if call.code:
            services().handsets.hang_up(call.as_step(), context)
        return replace(call, line="hung_up")
    return call.doing(ActKind.SEND, entry) if act == "send" else call


def _dial(call: Call, entry: str, targets: Sequence[_Target]) -> Call:
    """Dial what stands in the entry field: a code, with further entries behind it if there are any."""
    if not PHONE_NUMBER.fullmatch(call.phone_number):
        raise ServiceError(Code.INVALID_PHONE_NUMBER, "Enter a Ugandan phone number, such as 0772 123456.")
    dialled = re.sub(r"\s", "", entry)
    codes = [target for target in targets if target.code]
    if call.draft and not dialled.startswith("*"):
        return replace(call, line="open", dialled=dialled.strip("*#"))
    for target in sorted(codes, key=lambda each: len(each.code), reverse=True):
        stem = target.code.removesuffix("#")
        if f"{dialled.removesuffix('#')}*".startswith(f"{stem}*"):
            rest = dialled.removesuffix("#")[len(stem) + 1 :]
            chosen = call.target if call.draft == target.menu_id else target.value
            return replace(call, target=chosen, line="open", dialled=rest)
    if call.draft:
        return replace(call, line="open")
    raise ServiceError(Code.INVALID_REQUEST, "Connection problem or invalid MMI code: no code of yours begins so.")


def phone_beside(target: str, context: RequestContext) -> str:
    """A phone that has not dialled `target` yet, for another page."""
    call = _chosen({"target": target}, _targets(context))
    return render_template("console/phone/phone.html", **_shown(call, context, sends=False, error=None, entry=""))


def _page(
    call: Call, context: RequestContext, *, sends: bool = False, error: ServiceError | None = None, entry: str = ""
) -> Response:
    """The page, or only the phone for a request by htmx. `sends`: the newest act is sent to the gateway path."""
    part = "phone" if "HX-Request" in request.headers else "page"
    values = _shown(call, context, sends=sends, error=error, entry=entry)
    error = values["refusal"]
    html = render_template(f"console/phone/{part}.html", **values)
    return Response(html, status=error.code.http_status if error and part == "page" else 200)


def _shown(
    call: Call, context: RequestContext, *, sends: bool, error: ServiceError | None, entry: str
) -> dict[str, Any]:
    targets = _targets(context)
    target = _find(targets, call.target)
    languages = _languages(target, context) if target else []
    if call.language not in languages:
        call = replace(call, language="")
    call, seen, refusal = _with_screen(call, target, context, sends=sends)
    if call.line == "open" and seen is not None and seen.screen.secret:
        call, entry = replace(call, typed=entry), ""
    return {
        "call": call,
        "target": target,
        "targets": targets,
        "seen": seen,
        "refusal": refusal or error,
        "entry": entry,
        "diagram": _diagram(target, seen, context) if target is not None else "",
        "keys": _KEYS,
        "networks": NETWORKS,
        "menu_languages": languages,
        "now": services().clock.now(),
        "written": encrypt_field(call.written()),
        "may_dial": services().handsets.may_dial(context),
        "phone_number": call.phone_number,
        "messages": _messages(call.phone_number, context) if target and target.code and services().sms.is_on else None,
    }


def _messages(number: str, context: RequestContext) -> Sequence[SmsView]:
    return services().sms.list(ListSms(limit=_NEWEST_MESSAGES, phone_number=number), context).items


def _with_screen(
    call: Call, target: _Target | None, context: RequestContext, *, sends: bool
) -> tuple[Call, HandsetView | None, ServiceError | None]:
    """The call with its screen: over where there is none to answer, idle with the reason where it was refused."""
    seen = None
    if target is not None and call.line != "idle":
        try:
            seen = _seen(call, target, context, sends=sends)
        except ServiceError as refusal:
            return replace(call, line="idle", acts=()), None, refusal
    if call.line == "open" and (seen is None or seen.screen.ends):
        call = replace(call, line="over")
    return call, seen, None


def _seen(call: Call, target: _Target, context: RequestContext, *, sends: bool) -> HandsetView | None:
    """The screen of a call: asked of the gateway path, or walked in the draft."""
    if call.code:
        handsets = services().handsets
        return handsets.step(call.as_step(), context) if sends else handsets.look(call.as_step(), context)
    walked = services().menus.walk(call.as_walk(target.menu_id, None, _WALKED_CODE), context)
    screen, visited = walked.screens[-1], tuple(screen.node for screen in walked.screens)
    return HandsetView(replace(screen, ends=walked.is_over), visited, menu_id=target.menu_id)


def _diagram(target: _Target, seen: HandsetView | None, context: RequestContext) -> str:
    """The menu that is walked, or that the target leads to, with what was visited."""
    menu_id, version, marks = target.menu_id, target.version, {}
    if seen is not None:
        marks = dict.fromkeys(seen.visited, "seen") | {seen.screen.node: "lit"}
        if seen.menu_id:
            menu_id, version = seen.menu_id, seen.version
    return services().menus.draw(DrawMenu(menu_id, version, marks), context)


def _languages(target: _Target, context: RequestContext) -> list[str]:
    menu = services().menus.get(target.menu_id, context)
    document = menu.draft if target.version is None else menu.published or {}
    languages = document.get("languages")
    return [each for each in languages if isinstance(each, str)] if isinstance(languages, list) else []


def _targets(context: RequestContext) -> list[_Target]:
    """The client's codes with a published menu, if the person may dial them, then every draft."""
    menus = services().menus.list(context)
    may_dial = services().handsets.may_dial(context)
    coded = [
        _Target(f"code:{code}", f"{code} · {_name(menu)}", menu.menu_id, menu.published_version, code)
        for menu in menus
        for code in menu.codes
        if menu.published_version and may_dial
    ]
    drafts = [_Target(f"draft:{menu.menu_id}", f"Draft · {_name(menu)}", menu.menu_id, None, "") for menu in menus]
    return [*coded, *drafts]


def _name(menu: MenuSummary) -> str:
    return menu.title or menu.menu_id


def _chosen(fields: Mapping[str, str], targets: Sequence[_Target]) -> Call:
    """An idle phone with the choices of a form or an address; what is not offered counts as not chosen."""
    choices = {name: fields.get(name, "").strip()[:80] for name in ("target", "phone_number", "network", "language")}
    if not _find(targets, choices["target"]):
        choices["target"] = targets[0].value if targets else ""
    idle = Call()
    return replace(
        idle,
        target=choices["target"],
        phone_number=forms.phone_number(choices["phone_number"]) or idle.phone_number,
        network=choices["network"] if choices["network"] in NETWORKS else idle.network,
        language=choices["language"],
    )


def _find(targets: Sequence[_Target], value: str) -> _Target | None:
    return next((target for target in targets if target.value == value), None)
