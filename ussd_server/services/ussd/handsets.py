"""The console's phone: dials a client's code through the channel that a gateway would use."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ussd_server.context import SEND, RequestContext
from ussd_server.database.unit_of_work import unit_of_work
from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.messages import Action, GatewayReply, GatewayRequest, GatewayScreen, HandsetCall
from ussd_server.menus.document.variables import ProviderStates
from ussd_server.menus.text import MAX_SEPTETS, MAX_UCS2, Budget, Screen, measure
from ussd_server.menus.tools.walk import Act, WalkScreen, seen_screen
from ussd_server.models.ussd import CONSOLE_CALLS, Menu, MenuVersion, ServiceCode, SubscriberLanguage, UssdSession
from ussd_server.services.audit.trail import write_audit_event
from ussd_server.services.menus.documents import document_of, published_document
from ussd_server.services.runtime import Runtime
from ussd_server.services.ussd.channels import ChannelService
from ussd_server.services.ussd.gateways import GatewayService
from ussd_server.services.ussd.lookup import find_session
from ussd_server.services.ussd.messages import CachedChannel, HandsetView, SessionStatus
from ussd_server.services.ussd.sessions import state_of
from ussd_server.status import Code, ServiceError
from ussd_server.values import PHONE_NUMBER

_SESSION_ID = re.compile(r"[A-Za-z0-9-]{8,48}")
_LONGEST_HISTORY = 1_000


class HandsetService:
    """Sends the steps of a phone that a client's person holds in the browser. Its payments are real payments."""

    def __init__(self, runtime: Runtime, channels: ChannelService, gateways: GatewayService) -> None:
        """Nothing is dialled unless the setting allows it; outside of a sandbox only by callers that may move money."""
        self._channels = channels
        self._gateways = gateways
        self._provider_states = ProviderStates(runtime.providers.takes_payments)
        self._clock = runtime.clock
        self._may_dial = runtime.settings.has_console_phone
        self._is_sandbox = runtime.settings.is_sandbox

    def may_dial(self, context: RequestContext) -> bool:
        """Whether the caller may dial codes, and so make the payments of its menus."""
        may_pay = self._is_sandbox or context.may(SEND)
        return self._may_dial and context.may("ussd:write") and may_pay

    def step(self, call: HandsetCall, context: RequestContext) -> HandsetView:
        """Send the newest entry of a call, or the dialled code, and return the next screen.

        The same call again is a gateway's repeat: the same screen, without a second effect. Raises NOT_FOUND for a code
        that the client does not have, and INVALID_REQUEST for a malformed number or entry, and when no channel carries
        the code.
        """
        call, channel, secret = self._checked(call, context)
        if not call.entries:
            self._begin(call, context)
        gateway = ADAPTERS[channel.adapter]
        request = gateway.request_of(call, cumulative=channel.cumulative)
        reply = gateway.screen_of(self._answer(channel, secret, request, context))
        row = _find(call, channel, context)
        return _without_session(reply, call) if row is None else self._view(row, reply, call, channel)

    def look(self, call: HandsetCall, context: RequestContext) -> HandsetView | None:
        """Return the last screen of a call without sending anything; None before the first. Raises as `step` does."""
        call, channel, _ = self._checked(call, context)
        row = _find(call, channel, context)
        if row is None or not row.turns:
            return None
        return self._view(row, GatewayScreen(Action(row.action), row.message), call, channel)

    def hang_up(self, call: HandsetCall, context: RequestContext) -> None:
        """End a call, as a gateway reports it. Raises the errors of `step`."""
        call, channel, secret = self._checked(call, context)
        gateway = ADAPTERS[channel.adapter]
        request = gateway.hang_up(call)
        if request is None:
            return
        if gateway.sends_events:
            self._gateways.record_end(channel.adapter, secret, request)
        else:
            self._answer(channel, secret, request, context)

    def _answer(
        self, channel: CachedChannel, secret: str, request: GatewayRequest, context: RequestContext
    ) -> GatewayReply:
        return self._gateways.answer(
            channel.adapter, secret, request, context.request_id, only_client_id=context.client_id
        )

    def _checked(self, call: HandsetCall, context: RequestContext) -> tuple[HandsetCall, CachedChannel, str]:
        """Return a call with the gateway's name for its session, and its channel with the secret of its path."""
        if not self.may_dial(context):
            raise ServiceError(Code.INSUFFICIENT_SCOPE, "You may not dial codes here: their payments are real.")
        if not PHONE_NUMBER.fullmatch(call.phone_number):
            raise ServiceError(Code.INVALID_PHONE_NUMBER, "phone_number: Must be +256 followed by nine digits.")
        texts = (call.dialled, *call.entries)
        if not _SESSION_ID.fullmatch(call.session_id) or sum(map(len, texts)) + len(texts) > _LONGEST_HISTORY:
            raise ServiceError(Code.INVALID_REQUEST, "The call is too long. Dial again.")
        owned = (ServiceCode.code == call.service_code) & (ServiceCode.client_id == context.client_id)
        if not ServiceCode.select().where(owned).exists():
            raise ServiceError(Code.NOT_FOUND, "Service code not found")
        serving = self._channels.find_serving(call.service_code, context.client_id)
        if serving is None:
            raise ServiceError(Code.INVALID_REQUEST, "No open channel carries this code: no phone can dial it yet.")
        # Sessions of gateways and of other clients have other names.
        name = f"{CONSOLE_CALLS}{context.client_id}-{call.session_id}"
        return replace(call, session_id=name), *serving

    def _begin(self, call: HandsetCall, context: RequestContext) -> None:
        with unit_of_work():
            if call.language is not None and call.language in _languages(call.service_code):
                key = {"client_id": context.client_id, "phone_number": call.phone_number}
                SubscriberLanguage.put(key, {"language": call.language})
            write_audit_event(
                "phone.dialled",
                context,
                self._clock.now(),
                client_id=context.client_id,
                object_id=f"{call.service_code} {call.phone_number}",
            )

    def _view(self, row: UssdSession, reply: GatewayScreen, call: HandsetCall, channel: CachedChannel) -> HandsetView:
        document = document_of(row)
        is_active = row.status == SessionStatus.ACTIVE and reply.action is Action.CONTINUE
        turn: dict[str, Any] = next(
            (turn for turn in reversed(row.turns) if turn["screen"] == reply.text), row.turns[-1]
        )
        screen = Screen(reply.text, turn["node"], row.language, ends=reply.action is Action.END)
        state = state_of(row, self._provider_states) if is_active else None
        entry = call.entries[-1] if call.entries else call.dialled
        return HandsetView(
            screen=seen_screen(document, screen, state, row.network, channel.display, Act("send", entry)),
            visited=tuple(turn["node"] for turn in row.turns),
            session_id=row.id,
            menu_id=document.id,
            version=row.menu_version,
            transaction_id=row.transaction_id,
        )


def _languages(code: str) -> list[str]:
    row = (
        MenuVersion.select(MenuVersion.menu_id, MenuVersion.version)
        .join(Menu, on=(Menu.id == MenuVersion.menu_id) & (Menu.published_version == MenuVersion.version))
        .join(ServiceCode, on=ServiceCode.menu_id == Menu.id)
        .where(ServiceCode.code == code)
        .first()
    )
    return [] if row is None else list(published_document(row.menu_id, row.version).languages)


def _find(call: HandsetCall, channel: CachedChannel, context: RequestContext) -> UssdSession | None:
    row = find_session(channel.channel_id, call.session_id, call.phone_number).row
    return row if row is not None and row.client_id == context.client_id else None


def _without_session(reply: GatewayScreen, call: HandsetCall) -> HandsetView:
    size = measure(reply.text)
    screen = WalkScreen(
        act=Act("send"),
        text=reply.text,
        ends=True,
        node="",
        node_type="",
        language="en",
        network=call.network,
        used=size.units,
        limit=Budget(MAX_SEPTETS, MAX_UCS2).limit_of(size),
        unit=size.unit,
    )
    return HandsetView(screen)
