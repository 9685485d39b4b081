"""Phone companies: whatever they send and whatever happens inside, the phone gets a proper screen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from peewee import JOIN

from ussd_server.database.compiled_queries import CompiledQuery, param
from ussd_server.database.unit_of_work import DATABASE_TROUBLE, close_connections
from ussd_server.gateways import ADAPTERS, EVENT_ADAPTERS
from ussd_server.limits.quota_leases import QuotaLeases
from ussd_server.logs import logger, trace_of
from ussd_server.menus.engine.turns import Entry, Repeat, Restart, Start
from ussd_server.menus.text.phrases import phrase
from ussd_server.messages.channels import ChannelOfCall
from ussd_server.messages.gateways import (
    Action,
    ChannelOptions,
    GatewayReply,
    GatewayRequest,
    GatewayScreen,
    SessionEnd,
    SessionOutcome,
    StepKind,
    Unreadable,
)
from ussd_server.messages.ussd import EndReason, SessionStatus
from ussd_server.models.clients import Client
from ussd_server.models.ussd import Channel as ChannelRow
from ussd_server.models.ussd import ServiceCode, UssdSession
from ussd_server.services.ussd.channels import ChannelService
from ussd_server.services.ussd.conversations import Conversations, Dialled, opening_of, with_opening
from ussd_server.services.ussd.incoming_steps import classify
from ussd_server.services.ussd.phone_step import PhoneCall
from ussd_server.services.ussd.session_cache import SessionCache
from ussd_server.services.ussd.sessions import Sessions, may_be_paying
from ussd_server.services.ussd.transcripts import screen_of
from ussd_server.status import Code, ServiceError

log = logger(__name__)

_OVER = {StepKind.END: EndReason.HUNG_UP, StepKind.ABORT: EndReason.HUNG_UP, StepKind.TIMEOUT: EndReason.IDLE}


def _channel_and_session() -> Any:
    """The phone number's last session under a gateway's id, and whether its channel is open and its client active."""
    return (
        ChannelRow.select(
            ChannelRow.is_active.alias("channel_is_open"), Client.is_active.alias("client_is_active"), UssdSession
        )
        .join(
            UssdSession,
            JOIN.LEFT_OUTER,
            on=(UssdSession.channel_id == ChannelRow.id)
            & (UssdSession.provider_session_id == param(UssdSession.provider_session_id))
            & (UssdSession.phone_number == param(UssdSession.phone_number)),
        )
        .join(Client, JOIN.LEFT_OUTER, on=(Client.id == UssdSession.client_id))
        .where(ChannelRow.id == param(ChannelRow.id, "channel_id"))
        .order_by(UssdSession.id.desc())
        .limit(1)
    )


def _first_step() -> Any:
    """The same with what a session needs to begin."""
    is_dialled = ServiceCode.code == param(ServiceCode.code, "dialled_code")
    return with_opening(_channel_and_session().join(ServiceCode, JOIN.LEFT_OUTER, on=is_dialled))


_STEP = CompiledQuery(_channel_and_session)
_FIRST_STEP = CompiledQuery(_first_step)


class NoScreenError(Exception):
    """There is nothing to show for a step: nobody answers the code, or the step is out of order."""


class ChannelClosedError(Exception):
    """The channel by which a step came is closed."""


class GatewayService:
    """Holds conversations through phone companies."""

    def __init__(
        self, channels: ChannelService, sessions: Sessions, conversations: Conversations, allowance: QuotaLeases
    ) -> None:
        self._channels = channels
        self._sessions = sessions
        self._conversations = conversations
        self._allowance = allowance
        self._recollection = SessionCache()

    def answer(self, adapter: str, secret: str, request: GatewayRequest, request_id: str) -> GatewayReply:
        """Answer one call in the company's own language. Nothing is refused but a path that is nobody's: NOT_FOUND."""
        try:
            channel = self._channels.recall(adapter, secret, request.address)
        except DATABASE_TROUBLE as error:
            if adapter not in ADAPTERS:
                raise
            _log_failure(error)
            return ADAPTERS[adapter].trouble(phrase("trouble", "en"))
        gateway = ADAPTERS[channel.adapter]
        if not self._allowance.take(channel.channel_id):
            log.warning("a channel is over its limit", channel_id=channel.channel_id)
            return self._turn_away(adapter, secret)
        try:
            step = gateway.read(request, ChannelOptions(channel.codes, channel.cumulative))
            if not step.service_code and not channel.codes:
                channel = replace(channel, codes=self._channels.codes_served(channel.client_id))
                step = gateway.read(request, ChannelOptions(channel.codes, channel.cumulative))
        except Unreadable as why:
            log.warning("a step cannot be read", why=str(why), channel_id=channel.channel_id)
            return self._turn_away(adapter, secret)
        except DATABASE_TROUBLE as error:
            _log_failure(error)
            return gateway.trouble(phrase("trouble", "en"))
        phone_call = PhoneCall(step, channel, request_id, self._sessions.arrived(step.text, step.sequence))
        try:
            screen = self._recall(phone_call) or self._take(phone_call)
        except NoScreenError:
            screen = phone_call.last_screen()
        except ChannelClosedError:
            raise ServiceError(Code.NOT_FOUND, "Not found") from None
        except Exception as error:
            # A phone company drops the call on anything but a screen.
            _log_failure(error)
            screen = phone_call.last_screen()
        return gateway.write(screen, step)

    def hear(self, adapter: str, secret: str, request: GatewayRequest) -> None:
        """Take note of a company's report on an ended session. NOT_FOUND when the path is nobody's."""
        self._channels.recall(adapter, secret, request.address)
        channel = self._channels.identify(adapter, secret)
        reporter = EVENT_ADAPTERS.get(channel.adapter)
        if reporter is None:
            return
        try:
            self._note(reporter.read_event(request), channel)
        except Unreadable as why:
            log.warning("a report cannot be read", why=str(why), channel_id=channel.channel_id)

    def _turn_away(self, adapter: str, secret: str) -> GatewayReply:
        """The screen for a call that is not looked into. NOT_FOUND when its channel, told from memory, is closed."""
        try:
            self._channels.identify(adapter, secret)
        except DATABASE_TROUBLE as error:
            _log_failure(error)
        return ADAPTERS[adapter].trouble(phrase("trouble", "en"))

    def _take(self, phone_call: PhoneCall) -> GatewayScreen:
        """Tell what a step is, and do it or repeat it; a step that somebody else is working on is waited for."""
        known_turn = None
        for attempt in self._sessions.attempts():
            row = self._find(phone_call)
            if phone_call.step.kind in _OVER:
                return self._hang_up(row, phone_call.step.kind)
            if attempt == 0 and row is not None:
                known_turn = row.turn
            if row is None or not self._sessions.is_worked_on(row):
                screen = self._try(row, known_turn, phone_call)
                if screen is not None:
                    return screen
        raise TimeoutError

    def _try(self, row: UssdSession | None, known_turn: int | None, phone_call: PhoneCall) -> GatewayScreen | None:
        """Answer a step by what the session is now; None when somebody else was faster, so that it is another one."""
        match classify(row, known_turn, phone_call.step, phone_call.arrived, self._sessions):
            case Repeat(turn=turn) if row is not None:
                return screen_of(row.turns[turn])
            case Entry(text=text) if row is not None:
                phone_call.action_context = self._conversations.action_context(row, phone_call.request_id)
                row = self._conversations.go_on(
                    row, text, phone_call.arrived, phone_call.action_context, phone_call.carrier
                )
            case Start() | Restart() if phone_call.has_paid:
                # Its session ended while the payment was being recorded.
                raise NoScreenError
            case Start(entries=entries):
                row = self._open(row, phone_call, entries)
            case Restart():
                log.warning("a step does not fit its session, which begins anew")
                row = self._open(row, phone_call, (), from_start=True)
            case _:
                raise NoScreenError
        return None if row is None else self._shown(row)

    def _recall(self, phone_call: PhoneCall) -> GatewayScreen | None:
        """Answer the next entry of a session that this process remembers; None when it has to be looked up.

        Only for gateways that send the history or number their steps.
        """
        step = phone_call.step
        if step.kind is not StepKind.INPUT or not (step.cumulative or step.sequence is not None):
            return None
        row = self._recollection.take(phone_call.channel.channel_id, step.provider_session_id, step.phone_number)
        if row is None:
            return None
        match classify(row, row.turn, step, phone_call.arrived, self._sessions):
            # What looks like a star that was typed may be a step that another process answered.
            case Entry(text=text) if not (step.cumulative and "*" in text):
                self._know(row, phone_call)
                if self._conversations.go_on_from_memory(row, text, phone_call.arrived, phone_call.carrier):
                    return self._shown(row)
        return None

    def _shown(self, row: UssdSession) -> GatewayScreen:
        """The last screen of a session that was just written."""
        if row.status == SessionStatus.ACTIVE:
            self._recollection.keep(row)
        return screen_of(row.turns[-1])

    def _know(self, row: UssdSession, phone_call: PhoneCall) -> None:
        """Note what a screen for trouble would need."""
        phone_call.language = row.language or phone_call.language
        phone_call.had_paid = row.transaction_id is not None or may_be_paying(row)

    def _open(
        self, before: UssdSession | None, phone_call: PhoneCall, entries: tuple[str, ...], *, from_start: bool = False
    ) -> UssdSession | None:
        """Begin a session in the place of the one before, if that is still under way."""
        step, channel = phone_call.step, phone_call.channel
        code = phone_call.code
        opening = phone_call.opening or self._conversations.find_opening(code, channel.client_id, step.phone_number)
        if opening is None:
            raise NoScreenError
        if before is not None and before.status == SessionStatus.ACTIVE and not self._sessions.give_way(before):
            return None
        dialled = Dialled(
            phone_number=step.phone_number,
            service_code=code,
            network=step.network,
            entries=entries,
            from_start=from_start,
            channel_id=channel.channel_id,
            provider_session_id=step.provider_session_id,
            after=None if before is None else before.id,
        )
        return self._conversations.open(dialled, opening, phone_call.arrived, phone_call.request_id, phone_call.carrier)

    def _find(self, phone_call: PhoneCall) -> UssdSession | None:
        """The phone number's last session under the gateway's id. NoScreenError when its client is disabled.

        ChannelClosedError when the channel, which was told from memory, is closed by now.
        """
        step, channel = phone_call.step, phone_call.channel
        named = {
            "channel_id": channel.channel_id,
            "provider_session_id": step.provider_session_id,
            "phone_number": step.phone_number,
        }
        if step.kind is StepKind.BEGIN:
            sought = self._conversations.opening_values(phone_call.code, step.phone_number)
            row = _FIRST_STEP.first(UssdSession, **(named | sought))
        else:
            row = _STEP.first(UssdSession, **named)
        if row is None or not row.channel_is_open:
            raise ChannelClosedError
        if step.kind is StepKind.BEGIN:
            phone_call.opening = opening_of(row, channel.client_id)
        if row.id is None:
            return None
        if not row.client_is_active:
            raise NoScreenError
        self._know(row, phone_call)
        return row  # type: ignore[no-any-return]

    def _hang_up(self, row: UssdSession | None, kind: StepKind) -> GatewayScreen:
        if row is not None and row.status == SessionStatus.ACTIVE:
            status = SessionStatus.TIMED_OUT if kind is StepKind.TIMEOUT else SessionStatus.ENDED_BY_USER
            self._sessions.end(row, status, _OVER[kind])
        return GatewayScreen(Action.END, "")

    def _note(self, report: SessionEnd, channel: ChannelOfCall) -> None:
        is_meant = (
            (UssdSession.channel_id == channel.channel_id)
            & (UssdSession.provider_session_id == report.provider_session_id)
            & (UssdSession.phone_number == report.phone_number)
        )
        row = UssdSession.select().where(is_meant).order_by(UssdSession.id.desc()).first()
        if row is None:
            return
        failed = report.outcome is SessionOutcome.FAILED
        if row.status == SessionStatus.ACTIVE:
            status = SessionStatus.FAILED if failed else SessionStatus.ENDED_BY_USER
            self._sessions.end(row, status, EndReason.NOT_DELIVERED if failed else EndReason.ABANDONED)
        elif failed and row.status == SessionStatus.COMPLETED:
            # The last screen never reached the phone: the next call says what became of the payment.
            UssdSession.update(end_reason=EndReason.NOT_DELIVERED).where(UssdSession.id == row.id).execute()


def _log_failure(error: Exception) -> None:
    log.error("a step failed", error=trace_of(error))
    if isinstance(error, DATABASE_TROUBLE):
        close_connections()
