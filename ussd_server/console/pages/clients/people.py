"""Team: who the people of a client are, what they may do, and how they come in."""

from __future__ import annotations

from typing import Any

from flask import Response, render_template, request, session, url_for

from ussd_server.api.requests import services
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done
from ussd_server.console.links import public_address
from ussd_server.console.tables import Column, DataTable, pages, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext, marked
from ussd_server.services.clients.messages import ChangeRole, InvitePerson, PasswordLink
from ussd_server.status import Code, ServiceError
from ussd_server.wire import ListPage

ROLES = {
    "viewer": "sees everything but secrets, changes nothing",
    "developer": "also works with keys, menus, webhooks and payouts",
    "admin": "also refunds, approves payouts, deletes keys and manages the team",
    "owner": "as an admin, and manages owners",
}

_COLUMNS = (
    Column("email", "E-mail", "person", link=lambda person: url_for("console.show_person", user_id=person.user_id)),
    Column("role", "Role", "word"),
    Column("state", "State", "status"),
    Column("created_at", "Since", "moment"),
    Column("updated_at", "Changed", "moment", where="files"),
    Column("user_id", "Id", "id"),
)
_CONFIRMED = Column("confirmed", "Confirmed", "word", value=lambda person: "no" if person.needs_confirmation else "yes")


@console.page("GET", "/people", needs="team:read")
def list_people(context: RequestContext) -> Response:
    page = pages(services().people.list, ListPage(cursor=request.args.get("cursor")), context)
    factors = services().second_factors
    holders = factors.holders(context)
    factor = Column(
        "second_factor", "Second factor", "word", value=lambda person: "yes" if person.user_id in holders else "no"
    )
    return show_table(
        "console/people/list.html",
        DataTable("People, newest first", (*_COLUMNS[:3], factor, _CONFIRMED, *_COLUMNS[3:]), page),
        is_factor_required=factors.is_required(context),
    )


@console.page("GET", "/people/invite", needs="team:write")
def show_invitation(_: RequestContext) -> str:
    return render_template("console/people/invite.html", form=request.form, roles=ROLES)


@console.page(
    "POST",
    "/people/invite",
    needs="team:write",
    fresh_code=True,
    form_on="show_invitation",
    refusals=(Code.INSUFFICIENT_SCOPE, Code.RATE_LIMIT_EXCEEDED),
)
def invite_person(context: RequestContext) -> Any:
    form = request.form
    wanted = InvitePerson(form.get("email", "").strip(), form.get("role", ""), shows_link=_shows_link())
    return _link_page(gettext("The invitation is ready"), services().people.invite(wanted, context))


@console.page("GET", "/people/<user_id>", needs="team:read", shows="person")
def show_person(context: RequestContext, user_id: str) -> str:
    person = services().people.show(user_id, context)
    return render_template(
        "console/people/person.html",
        user=person,
        roles=ROLES,
        me=context.caller.user_id,
        has_factor=user_id in services().second_factors.holders(context),
        mail=services().mails.last_of_person(user_id, context),
        keys=services().key_reader.known_to(user_id, context),
    )


@console.page("POST", "/people/<user_id>/role", needs="team:write", fresh_code=True)
def change_role(context: RequestContext, user_id: str) -> Any:
    changed = services().people.change_role(ChangeRole(user_id, request.form.get("role", "")), context)
    text = gettext("%(email)s is %(role)s from now on.", email=changed.email, role=gettext(changed.role))
    hint = gettext("The link of the invitation has ended: make a new one.") if changed.state == "invited" else ""
    return _changed(user_id, f"{text} {hint}".strip(), context)


@console.page("POST", "/people/<user_id>/confirm", needs="payouts:approve", fresh_code=True)
def confirm_person(context: RequestContext, user_id: str) -> Any:
    confirmed = services().people.confirm(user_id, context)
    text = gettext("%(email)s counts as a person of their own from now on.", email=confirmed.email)
    return _changed(user_id, text, context)


@console.page("POST", "/people/<user_id>/<any(enable,disable):action>", needs="team:write", fresh_code=True)
def set_person(context: RequestContext, user_id: str, action: str) -> Any:
    services().people.set_active(user_id, action == "enable", context)
    enabled, disabled = marked(("The person may sign in again.", "The person is disabled and signed out everywhere."))
    return _changed(user_id, gettext(enabled if action == "enable" else disabled), context)


@console.page("POST", "/people/<user_id>/logins/end", needs="team:write", fresh_code=True)
def end_logins_of_person(context: RequestContext, user_id: str) -> Any:
    services().people.end_logins(user_id, context)
    return _changed(user_id, gettext("Every login of the person has ended."), context)


@console.page("POST", "/people/<user_id>/link", needs="team:write", fresh_code=True)
def make_password_link(context: RequestContext, user_id: str) -> Any:
    link = services().people.new_link(user_id, context, shows_link=_shows_link())
    return _link_page(gettext("The link is ready"), link)


@console.page("GET", "/welcome/<token>", who="public")
def show_welcome(_: RequestContext, token: str) -> str:
    email = services().password_links.email_of(token)
    return render_template("console/people/welcome.html", token=token, email=email)


@console.page("POST", "/welcome/<token>", who="public", form_on="show_welcome")
def choose_password(context: RequestContext, token: str) -> Any:
    password = request.form.get("password", "")
    if password != request.form.get("password_again", ""):
        raise ServiceError(Code.INVALID_REQUEST, "The two passwords differ.")
    services().password_links.choose_password(token, password, context)
    session.clear()
    return done("Your password is set. Sign in with it.", "show_sign_in")


def _changed(user_id: str, text: str, context: RequestContext) -> Any:
    if user_id == context.caller.user_id:
        # A person who lowered their own role or ended their own logins can no longer see this page.
        return done(text, "show_overview")
    return done(text, "show_person", user_id=user_id)


def _shows_link() -> bool:
    return request.form.get("shows_link") == "1"


def _link_page(title: str, link: PasswordLink) -> Any:
    """The page with the link, or the page of the person to whom it is mailed."""
    if link.token is None:
        text = gettext("A link is on its way to %(email)s. It works once, for three days.", email=link.person.email)
        return done(text, "show_person", user_id=link.person.user_id)
    address = public_address("console.show_welcome", token=link.token)
    return render_template("console/people/link.html", title=title, link=link, address=address)
