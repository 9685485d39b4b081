"""Clients, their service codes, and channels: what operators keep."""

from __future__ import annotations

from typing import Any

from flask import Response, render_template, request, url_for

from ussd_server.api.requests import services
from ussd_server.console import forms
from ussd_server.console.blueprint import console
from ussd_server.console.forms import done
from ussd_server.console.links import acting_for, link_to
from ussd_server.console.tables import Column, DataTable, TableFilter, pages, show_table
from ussd_server.context import RequestContext
from ussd_server.languages import gettext, marked
from ussd_server.security.passwords import new_password
from ussd_server.services.clients.messages import CreateClient, CreateUser
from ussd_server.services.menus.messages import AssignCode
from ussd_server.services.ussd.messages import ChannelView, CreateChannel
from ussd_server.status import Code, ServiceError
from ussd_server.wire import ListPage, Page

_NAME = TableFilter("q", "Name or id", placeholder=marked("The whole name"))


def _state(row: Any) -> str:
    return "active" if row.is_active else "disabled"


_CLIENTS = (
    Column("name", "Name", link=lambda client: url_for("console.show_client", client_id=client.client_id)),
    Column("state", "State", "status", value=_state),
    Column("created_at", "Created", "moment"),
    Column("updated_at", "Changed", "moment"),
    Column("client_id", "Id", "id"),
)
_KEYS = (
    Column("apikey", "API key", "code", link=lambda key: link_to("key", key.id)),
    Column("state", "State", "status"),
    Column("scopes", "Scopes", value=lambda key: key.scopes or "everything", kind="sentence"),
    Column("last_used_at", "Last use", "moment", missing="never used"),
)
_PEOPLE = (
    Column("email", "E-mail"),
    Column("role", "Role", "word"),
    Column("state", "State", "status"),
    Column("created_at", "Since", "moment"),
)
_CHANNELS = (
    Column("name", "Name", link=lambda channel: url_for("console.show_channel", channel_id=channel.channel_id)),
    Column("adapter", "Gateway", "code"),
    Column("state", "State", "status", value=lambda channel: "active" if channel.is_active else "closed"),
    Column("codes", "Codes", value=lambda channel: ", ".join(channel.codes) or "all", kind="sentence"),
    Column("created_at", "Created", "moment"),
    Column("client_id", "Client's id", "id", where="files"),
    Column("channel_id", "Id", "id"),
)
_BINDS = (
    Column("process", "Process", "code"),
    Column("number", "Bind", "number"),
    Column("state", "State", "status"),
    Column("reason", "Why"),
    Column("since", "Since", "moment"),
    Column("seen_at", "Reported", "moment"),
)


@console.page("GET", "/operator/clients", who="operator")
def list_clients(context: RequestContext) -> Response:
    name, clients = _NAME, services().clients
    try:
        page = (
            Page((clients.find(name.chosen, context),), None)
            if name.chosen
            else pages(clients.page, ListPage(cursor=request.args.get("cursor")), context)
        )
    except ServiceError as error:
        if error.code is not Code.NOT_FOUND:
            raise
        page = Page((), None)
    table = DataTable("Clients, newest first", _CLIENTS, page, (_NAME,), empty_title="No client yet")
    return show_table("console/system/clients.html", table, name=request.form.get("name", ""))


@console.page("POST", "/operator/clients", who="operator", form_on="list_clients")
def create_client(context: RequestContext) -> Any:
    client = services().clients.create(CreateClient(request.form.get("name", "").strip()), context)
    text = gettext("%(client)s is ready. Make its first owner.", client=client.name)
    return done(text, "show_client", client_id=client.client_id)


@console.page("POST", "/operator/clients/<client_id>/owner", who="operator", form_on="show_client")
def create_first_owner(context: RequestContext, client_id: str) -> Any:
    """Make the first person of a client, and show their password once. Owners make all others."""
    email, password = request.form.get("email", "").strip(), new_password()
    person = CreateUser(client_id, email, "owner", password, is_first=True)
    owner = services().clients.create_user(person, context)
    return _client_page(client_id, context, made=(owner.email, password))


@console.page("GET", "/operator/clients/<client_id>", who="operator", shows="client")
def show_client(context: RequestContext, client_id: str) -> str:
    return _client_page(client_id, context)


@console.page(
    "POST", "/operator/clients/<client_id>/<any(disable,enable):action>", who="operator", form_on="show_client"
)
def set_client(context: RequestContext, client_id: str, action: str) -> Any:
    """Refuse a client's keys and end its people's logins, or accept its keys and people again."""
    services().clients.set_active(client_id, action == "enable", context, request.form.get("reason", ""))
    return done(
        "The client is enabled. Its keys work; its people sign in again."
        if action == "enable"
        else "The client is disabled: its keys and people are refused.",
        "show_client",
        client_id=client_id,
    )


@console.page("POST", "/operator/clients/<client_id>/codes", who="operator", form_on="show_client")
def assign_code(context: RequestContext, client_id: str) -> Any:
    wanted = AssignCode(request.form.get("service_code", "").strip(), client_id)
    code = services().channels.assign_code(wanted, context)
    return done(gettext("%(code)s belongs to this client.", code=code.service_code), "show_client", client_id=client_id)


@console.page("GET", "/operator/channels", who="operator")
def list_channels(context: RequestContext) -> Response:
    """Every channel, without its secret path."""
    channels = services().channels.list(context)
    names = services().clients.names({each.client_id for each in channels if each.client_id}, context)
    client = Column(
        "client",
        "Client",
        value=lambda each: names.get(each.client_id),
        link=lambda each: link_to("client", each.client_id),
        missing="every client",
    )
    table = DataTable(
        "Channels, oldest first",
        (*_CHANNELS[:2], client, *_CHANNELS[2:]),
        channels,
        empty_title="No channel yet",
        empty_text="A channel gives a gateway a secret path to send phones' steps to.",
    )
    return show_table("console/system/channels.html", table)


@console.page("GET", "/operator/channels/new", who="operator")
def new_channel(_: RequestContext) -> str:
    adapters = services().channels.adapters()
    return render_template("console/system/new_channel.html", form=request.form, adapters=adapters)


@console.page("POST", "/operator/channels/new", who="operator", form_on="new_channel")
def create_channel(context: RequestContext) -> Any:
    form = request.form
    client = form.get("client", "").strip()
    client_id = forms.client_id(client, context) if client else None
    codes = tuple(form.get("codes", "").split())
    channel = services().channels.create(
        CreateChannel(form.get("adapter", ""), client_id, form.get("name", "").strip()[:100], codes), context
    )
    return _channel_page(channel, channel.gateway_path, context)


@console.page("GET", "/operator/channels/<channel_id>", who="operator", shows="channel")
def show_channel(context: RequestContext, channel_id: str) -> str:
    """One channel, without its secret path."""
    channel = next((one for one in services().channels.list(context) if one.channel_id == channel_id), None)
    if channel is None:
        raise ServiceError(Code.NOT_FOUND, "Channel not found")
    return _channel_page(channel, None, context)


@console.page("POST", "/operator/channels/<channel_id>/reveal", who="operator")
def reveal_channel(context: RequestContext, channel_id: str) -> str:
    """Show the path of a channel; the audit trail keeps it."""
    channel = services().channels.reveal(channel_id, context)
    return _channel_page(channel, channel.gateway_path, context)


@console.page("POST", "/operator/channels/<channel_id>/<any(open,close):action>", who="operator")
def set_channel(context: RequestContext, channel_id: str, action: str) -> Any:
    services().channels.set_active(channel_id, action == "open", context)
    return done(
        "The channel is open." if action == "open" else "The channel is closed: no step is answered.",
        "show_channel",
        channel_id=channel_id,
    )


def _client_page(client_id: str, context: RequestContext, made: tuple[str, str] | None = None) -> str:
    """The page of a client; `made` are the address and the password of its first owner."""
    clients = services().clients
    client = clients.find(client_id, context)
    for_client = acting_for(client, context)
    return render_template(
        "console/system/client.html",
        client=client,
        balance=services().balances.get(None, for_client),
        bank=services().bank_accounts.show(for_client),
        keys=DataTable("API keys, newest first", _KEYS, services().key_reader.list(for_client)),
        people=DataTable("People, newest first", _PEOPLE, services().people.list(ListPage(), for_client).items),
        reason=clients.reason_of(client, context),
        made=made,
        codes=services().menus.codes(for_client),
        service_code=request.form.get("service_code", ""),
    )


def _channel_page(channel: ChannelView, path: str | None, context: RequestContext) -> str:
    client = services().clients.find(channel.client_id, context) if channel.client_id else None
    binds = DataTable(
        "Binds",
        _BINDS,
        channel.binds,
        empty_title="No bind",
        empty_text="No process serves this channel: start ussd-server smpp.",
    )
    return render_template("console/system/channel.html", channel=channel, path=path, client=client, binds=binds)
