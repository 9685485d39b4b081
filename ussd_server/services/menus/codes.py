"""Service codes: how they are written, and the menu each is bound to."""

from __future__ import annotations

import re

from ussd_server.models.ussd import Menu, ServiceCode
from ussd_server.services.menus.messages import CodeView
from ussd_server.status import Code, ServiceError

_SERVICE_CODE = re.compile(r"(?=.{3,20}\Z)\*[0-9]+(?:\*[0-9]+)*#")


def service_code(text: str) -> str:
    """Return a service code as it is stored, `*384*123#`; adds a missing hash. Raises INVALID_REQUEST if malformed."""
    code = text if text.endswith("#") else f"{text}#"
    if not _SERVICE_CODE.fullmatch(code):
        raise ServiceError(Code.INVALID_REQUEST, "service_code: Must be a code such as *384*123#.")
    return code


def view_of_code(row: ServiceCode) -> CodeView:
    """Return a service code with the name of its menu."""
    menu = Menu.get_or_none(Menu.id == row.menu_id) if row.menu_id else None
    return CodeView(row.code, row.client_id, menu.name if menu else None, row.created_at)
