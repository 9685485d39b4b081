"""The demonstration client of a sandbox: people, an API key, a channel and a menu, made once and kept."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ussd_server.bootstrap import Services
from ussd_server.context import RequestContext, operator_context
from ussd_server.demonstration import operators
from ussd_server.demonstration.example_day import ExampleDay, MovingTime
from ussd_server.menus.source.texts import read_menu_file
from ussd_server.security.secrets_file import write_private
from ussd_server.services.clients.keys.messages import ApiKeyView, CreateApiKey
from ussd_server.services.clients.messages import CreateClient, CreateUser
from ussd_server.services.menus.messages import AssignCode, BindCode, SaveDraft
from ussd_server.services.transactions.messages import CreateDeposit
from ussd_server.services.ussd.messages import CreateChannel
from ussd_server.status import Code, ServiceError

_CLIENT = "Demonstration"
_EMAIL = "owner@demonstration.example"
_VIEWER_EMAIL = "viewer@demonstration.example"
_APPROVER_EMAIL = "approver@demonstration.example"
_KEY_NAME = "Web shop (example)"
_ADAPTER = "africastalking"
_CODES = ("*165#", "*284*165#", "*384*165#")
_MENU = Path(__file__).parents[1] / "menus" / "examples" / "savings_group.yaml"
_DEPOSIT_CENTS = 50_000_000
_PASSWORD_BYTES = 12


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The content of `demo.json`."""

    base_url: str
    email: str
    password: str = field(repr=False)
    client_id: str
    apikey: str
    apisecret: str = field(repr=False)
    viewer_email: str
    viewer_password: str = field(repr=False)
    approver_email: str
    approver_password: str = field(repr=False)
    operator_email: str
    operator_password: str = field(repr=False)
    second_operator_email: str
    second_operator_password: str = field(repr=False)
    service_code: str
    gateway_path: str = field(repr=False)


def prepare_demonstration(services: Services, base_url: str, *, with_examples: bool = True) -> Demonstration:
    """Create missing parts of the demonstration and write `demo.json`. Existing parts stay as they are.

    Without `demo.json` the key and the passwords are new, because the old ones are not stored in clear text.
    `with_examples` gives a service without any client a day of example data, but only if the sandbox would move all
    example payments. No other process of the service may run during the call.
    """
    time = MovingTime(services)
    time.end_interrupted()
    is_sandbox_alone = [provider.name for provider in services.runtime.providers] == ["sandbox"]
    if not (with_examples and is_sandbox_alone) or services.clients.list(operator_context()):
        return _prepare(services, base_url)
    with time.begin():
        made = _prepare(services, base_url)
        ExampleDay(services, time, made).live()
    return made


def _prepare(services: Services, base_url: str) -> Demonstration:
    path = services.settings.data_dir / "demo.json"
    record = _read(path)
    client_id = _client(services)
    context = operator_context(client_id)
    key = _key(services, record, context)
    service_code = _service_code(services, record, context)
    _menu(services, service_code, context)
    services.deposits.create(CreateDeposit(client_id, _DEPOSIT_CENTS, "demonstration"), context)
    demonstration = Demonstration(
        base_url=base_url,
        email=_EMAIL,
        password=_password(services, _EMAIL, "owner", record.get("password"), context),
        client_id=client_id,
        apikey=key.apikey,
        apisecret=key.apisecret,
        viewer_email=_VIEWER_EMAIL,
        viewer_password=_password(services, _VIEWER_EMAIL, "viewer", record.get("viewer_password"), context),
        approver_email=_APPROVER_EMAIL,
        approver_password=_password(services, _APPROVER_EMAIL, "admin", record.get("approver_password"), context),
        operator_email=operators.EMAILS[0],
        operator_password=_operator(services, operators.EMAILS[0], record.get("operator_password")),
        second_operator_email=operators.EMAILS[1],
        second_operator_password=_operator(services, operators.EMAILS[1], record.get("second_operator_password")),
        service_code=service_code,
        gateway_path=_gateway_path(services, context),
    )
    write_private(path, asdict(demonstration))
    return demonstration


def _client(services: Services) -> str:
    try:
        return services.clients.find(_CLIENT, operator_context()).client_id
    except ServiceError as refusal:
        if refusal.code is not Code.NOT_FOUND:
            raise
        return services.clients.create(CreateClient(_CLIENT), operator_context()).client_id


def _password(services: Services, email: str, role: str, old_password: str | None, context: RequestContext) -> str:
    """Return the password of a user of the demonstration; creates the user if missing."""
    exists = email in {user.email for user in services.clients.list_users(context.client_id, context)}
    if exists and old_password is not None:
        return old_password
    password = old_password or secrets.token_urlsafe(_PASSWORD_BYTES)
    if exists:
        services.clients.change_password(email, password, context)
    else:
        services.clients.create_user(CreateUser(context.client_id, email, role, password), context)
    return password


def _operator(services: Services, email: str, old_password: str | None) -> str:
    password = old_password or secrets.token_urlsafe(_PASSWORD_BYTES)
    return operators.make_operator(services, email, password, old_password)


def _key(services: Services, record: Mapping[str, str], context: RequestContext) -> ApiKeyView:
    for key in services.api_keys.list(context):
        if (key.apikey, key.apisecret) == (record.get("apikey"), record.get("apisecret")):
            return key
    return services.api_keys.create(CreateApiKey(name=_KEY_NAME), context)


def _service_code(services: Services, record: Mapping[str, str], context: RequestContext) -> str:
    """Return the demonstration's service code, or the first free one."""
    mine = [code.service_code for code in services.menus.codes(context)]
    if mine:
        return record["service_code"] if record.get("service_code") in mine else mine[0]
    for code in _CODES[:-1]:
        try:
            return services.channels.assign_code(AssignCode(code, context.client_id), context).service_code
        except ServiceError as refusal:
            if refusal.code is not Code.INVALID_REQUEST:
                raise
    return services.channels.assign_code(AssignCode(_CODES[-1], context.client_id), context).service_code


def _menu(services: Services, service_code: str, context: RequestContext) -> None:
    """Publish the savings group's menu and bind the code to it, unless the code has a menu."""
    if any(code.service_code == service_code and code.menu_id for code in services.menus.codes(context)):
        return
    document, _ = read_menu_file(_MENU)
    menu_id = document["id"]
    services.menus.save_draft(SaveDraft(menu_id, document), context)
    services.menus.publish(menu_id, context)
    services.menus.bind_code(BindCode(service_code, menu_id), context)


def _gateway_path(services: Services, context: RequestContext) -> str:
    for channel in services.channels.list(context):
        if (channel.client_id, channel.adapter) == (context.client_id, _ADAPTER) and channel.is_active:
            return channel.gateway_path
    return services.channels.create(CreateChannel(_ADAPTER, context.client_id, _CLIENT), context).gateway_path


def _read(path: Path) -> dict[str, str]:
    """Return what an earlier start wrote; empty when the file is missing or unreadable."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return (
        {name: value for name, value in document.items() if isinstance(value, str)}
        if isinstance(document, dict)
        else {}
    )
