"""The demonstration client of a sandbox: everything a newcomer needs to try the service, made once and kept."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ussd_server.house import Services
from ussd_server.menu_files import read_menu_file
from ussd_server.messages.api_keys import ApiKeyView, CreateApiKey
from ussd_server.messages.channels import AssignCode, BindCode, CreateChannel
from ussd_server.messages.clients import CreateClient, CreateUser
from ussd_server.messages.menus import NameMenu, SaveDraft
from ussd_server.messages.transactions import CreateDeposit
from ussd_server.rpc.context import CallContext, operator_call
from ussd_server.rpc.private_file import write_private
from ussd_server.rpc.status import Code, ServiceError

_CLIENT = "Demonstration"
_EMAIL = "owner@demonstration.example"
_VIEWER_EMAIL = "viewer@demonstration.example"
_ADAPTER = "africastalking"
_CODES = ("*165#", "*284*165#", "*384*165#")
_MENU = Path(__file__).parent / "menus" / "examples" / "savings_group.yaml"
_DEPOSIT_CENTS = 50_000_000
_PASSWORD_BYTES = 12


@dataclass(frozen=True, slots=True)
class Demonstration:
    """What `demo.json` holds."""

    base_url: str
    email: str
    password: str = field(repr=False)
    client_id: str
    apikey: str
    apisecret: str = field(repr=False)
    viewer_email: str
    viewer_password: str = field(repr=False)
    service_code: str
    gateway_path: str = field(repr=False)


def prepare_demonstration(services: Services, base_url: str) -> Demonstration:
    """Make what is missing of the demonstration and write `demo.json`; what is there stays as it is.

    Without `demo.json` there are a fresh key and fresh passwords, because nobody knows the old ones any more.
    """
    path = services.settings.data_dir / "demo.json"
    known = _read(path)
    client_id = _client(services)
    call = operator_call(client_id)
    key = _key(services, known, call)
    service_code = _service_code(services, known, call)
    _menu(services, service_code, call)
    services.transactions.deposit(CreateDeposit(client_id, _DEPOSIT_CENTS, "demonstration"), call)
    made = Demonstration(
        base_url=base_url,
        email=_EMAIL,
        password=_password(services, _EMAIL, "owner", known.get("password"), call),
        client_id=client_id,
        apikey=key.apikey,
        apisecret=key.apisecret,
        viewer_email=_VIEWER_EMAIL,
        viewer_password=_password(services, _VIEWER_EMAIL, "viewer", known.get("viewer_password"), call),
        service_code=service_code,
        gateway_path=_gateway_path(services, call),
    )
    write_private(path, asdict(made))
    return made


def _client(services: Services) -> str:
    try:
        return services.clients.find(_CLIENT, operator_call()).client_id
    except ServiceError as refusal:
        if refusal.code is not Code.NOT_FOUND:
            raise
        return services.clients.create(CreateClient(_CLIENT), operator_call()).client_id


def _password(services: Services, email: str, role: str, known: str | None, call: CallContext) -> str:
    """The password of a person of the demonstration, who is made if need be."""
    exists = email in {user.email for user in services.clients.list_users(call.client_id, call)}
    if exists and known is not None:
        return known
    password = known or secrets.token_urlsafe(_PASSWORD_BYTES)
    if exists:
        services.clients.change_password(email, password, call)
    else:
        services.clients.create_user(CreateUser(call.client_id, email, role, password), call)
    return password


def _key(services: Services, known: Mapping[str, str], call: CallContext) -> ApiKeyView:
    for key in services.api_keys.list(call):
        if (key.apikey, key.apisecret) == (known.get("apikey"), known.get("apisecret")):
            return key
    return services.api_keys.create(CreateApiKey(), call)


def _service_code(services: Services, known: Mapping[str, str], call: CallContext) -> str:
    """The code that the demonstration has, or the first that nobody else has."""
    mine = [code.service_code for code in services.menus.codes(call)]
    if mine:
        return known["service_code"] if known.get("service_code") in mine else mine[0]
    for code in _CODES[:-1]:
        try:
            return services.channels.assign_code(AssignCode(code, call.client_id), call).service_code
        except ServiceError as refusal:
            if refusal.code is not Code.INVALID_REQUEST:
                raise
    return services.channels.assign_code(AssignCode(_CODES[-1], call.client_id), call).service_code


def _menu(services: Services, service_code: str, call: CallContext) -> None:
    """Publish the savings group's menu and let it answer the code, unless a menu does already."""
    if any(code.service_code == service_code and code.menu_id for code in services.menus.codes(call)):
        return
    document = read_menu_file(_MENU)
    menu_id = document["id"]
    services.menus.save_draft(SaveDraft(menu_id, document), call)
    services.menus.publish(NameMenu(menu_id), call)
    services.menus.bind_code(BindCode(service_code, menu_id), call)


def _gateway_path(services: Services, call: CallContext) -> str:
    for channel in services.channels.list(call):
        if (channel.client_id, channel.adapter) == (call.client_id, _ADAPTER) and channel.is_active:
            return channel.gateway_path
    return services.channels.create(CreateChannel(_ADAPTER, call.client_id, _CLIENT), call).gateway_path


def _read(path: Path) -> dict[str, str]:
    """What an earlier start wrote; nothing when the file is missing or is not what was written."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return (
        {name: value for name, value in document.items() if isinstance(value, str)}
        if isinstance(document, dict)
        else {}
    )
