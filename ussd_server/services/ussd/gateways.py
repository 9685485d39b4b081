"""Steps that gateways send: find the channel, find the session, classify the step, answer with a screen."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ussd_server.database.unit_of_work import DATABASE_ERRORS, close_connections, reason_of
from ussd_server.gateways import ADAPTERS
from ussd_server.gateways.messages import (
    Action,
    ChannelOptions,
    GatewayReply,
    GatewayRequest,
    GatewayScreen,
    SessionEnd,
    SessionOutcome,
    StepKind,
    UnreadableError,
)
from ussd_server.logs import Logger, trace_of
from ussd_server.menus.phrases import phrase
from ussd_server.models.ussd import UssdSession
from ussd_server.services.runtime import Runtime
from ussd_server.services.ussd.channels import ChannelService
from ussd_server.services.ussd.conversations import Conversations, DialRequest
from ussd_server.services.ussd.lookup import find_dial, find_session, find_target
from ussd_server.services.ussd.messages import CachedChannel, EndReason, SessionStatus
from ussd_server.services.ussd.sessions import Sessions, may_be_paying
from ussd_server.services.ussd.steps import Entry, PhoneStep, Repeat, Restart, Start, classify
from ussd_server.status import Code, ServiceError

log = Logger(__name__)

_END_KINDS = {StepKind.END: EndReason.HUNG_UP, StepKind.ABORT: EndReason.HUNG_UP, StepKind.TIMEOUT: EndReason.IDLE}
_CacheKey = tuple[str | None, str | None, str]


class NoScreenError(Exception):
    """No menu answers the code, the client is disabled, or the step is out of order."""


class ChannelClosedError(Exception):
    """The channel of a step has been closed."""


class SessionCache:
    """Caches the sessions of gateways, a few kilobytes each. Drops the session that was written longest ago.

    A cached session may be out of date: `Sessions.write` checks its turn, its channel and its client.
    """

    def __init__(self, most: int = 4096) -> None:
        self._most = most
        self._rows: dict[_CacheKey, UssdSession] = {}
        self._lock = threading.Lock()

    def take(self, channel_id: str, provider_session_id: str, phone_number: str) -> UssdSession | None:
        """Remove and return a session, so that no other thread uses it; None when it is not cached."""
        with self._lock:
            return self._rows.pop((channel_id, provider_session_id, phone_number), None)

    def keep(self, row: UssdSession) -> None:
        """Add an active session that was just written."""
        with self._lock:
            self._rows[row.channel_id, row.provider_session_id, row.phone_number] = row
            if len(self._rows) > self._most:
                del self._rows[next(iter(self._rows))]


class GatewayService:
    """Answers gateways. Each reply is a screen in the gateway's format, also after an error of ours."""

    def __init__(
        self, runtime: Runtime, channels: ChannelService, sessions: Sessions, conversations: Conversations
    ) -> None:
        self._channels = channels
        self._sessions = sessions
        self._conversations = conversations
        self._limiter = runtime.limiter
        self._cache = SessionCache()

    def answer(
        self, adapter: str, secret: str, request: GatewayRequest, request_id: str, *, only_client_id: str | None = None
    ) -> GatewayReply:
        """Answer one step in the format of its gateway. Raises NOT_FOUND for an unknown path, and nothing else.

        A step that reaches the code of another client than `only_client_id` gets the error screen.
        """
        try:
            channel = self._channels.find_cached(adapter, secret, request.address)
        except DATABASE_ERRORS as error:
            if adapter not in ADAPTERS:
                raise
            return _answer_failure(adapter, error)
        gateway = ADAPTERS[channel.adapter]
        if not self._limiter.hit("channel", channel.channel_id).accepted:
            log.warning("a channel is over its limit", channel_id=channel.channel_id)
            return self.refuse(adapter, secret)
        try:
            step = gateway.read(request, ChannelOptions(channel.codes, channel.cumulative))
            if not step.service_code and not channel.codes:
                channel = replace(channel, codes=self._channels.codes_served(channel.client_id))
                step = gateway.read(request, ChannelOptions(channel.codes, channel.cumulative))
        except UnreadableError as why:
            log.warning("a step cannot be read", why=str(why), channel_id=channel.channel_id)
            return self.refuse(adapter, secret)
        except DATABASE_ERRORS as error:
            return _answer_failure(adapter, error)
        if only_client_id is not None:
            # The dialled text was split by the codes of the whole channel, as for its gateway.
            channel = replace(channel, client_id=only_client_id)
        step_input = self._sessions.received(step.text, step.sequence, gateway.answer_seconds)
        phone_step = PhoneStep(step, channel, request_id, step_input)
        try:
            screen = self._answer_from_cache(phone_step) or self._answer(phone_step)
        except NoScreenError:
            screen = phone_step.error_screen()
        except ChannelClosedError:
            raise ServiceError(Code.NOT_FOUND, "Not found") from None
        except Exception as error:
            # A gateway drops the call on anything but a screen.
            _log_failure(error)
            screen = phone_step.error_screen()
        return gateway.write(screen, step)

    def refuse(self, adapter: str, secret: str) -> GatewayReply:
        """An error screen for a step that is not read; NOT_FOUND when its channel has been closed."""
        try:
            self._channels.find(adapter, secret)
        except DATABASE_ERRORS as error:
            _log_failure(error)
        return _error_screen(adapter)

    def record_end(self, adapter: str, secret: str, request: GatewayRequest) -> None:
        """Record a gateway's report on an ended session. Raises NOT_FOUND for an unknown path."""
        self._channels.find_cached(adapter, secret, request.address)
        channel = self._channels.find(adapter, secret)
        gateway = ADAPTERS[channel.adapter]
        if not gateway.sends_events:
            return
        try:
            self._record(gateway.read_event(request), channel)
        except UnreadableError as why:
            log.warning("a report cannot be read", why=str(why), channel_id=channel.channel_id)

    def record_undelivered(self, adapter: str, secret: str, request: GatewayRequest) -> None:
        """Record that the last screen, which answered this step, may not have reached the phone.

        The next session shows the outcome of the payment, as after a gateway's own report. Raises NOT_FOUND for an
        unknown path.
        """
        channel = self._channels.find(adapter, secret)
        step = ADAPTERS[adapter].read(request, ChannelOptions(channel.codes, channel.cumulative))
        row = find_session(channel.channel_id, step.provider_session_id, step.phone_number).row
        if row is not None:
            _mark_undelivered(row)

    def _answer_from_cache(self, phone_step: PhoneStep) -> GatewayScreen | None:
        """Answer the next entry of a cached session without reading it; None when it must be read.

        Only for gateways that send the history or number their steps.
        """
        step = phone_step.step
        if step.kind is not StepKind.INPUT or not (step.cumulative or step.sequence is not None):
            return None
        row = self._cache.take(phone_step.channel.channel_id, step.provider_session_id, step.phone_number)
        if row is None:
            return None
        answered = self._sessions.answered_steps(row, phone_step.input)
        match classify(step, phone_step.code, answered, row.turn):
            # A star in a history may have been typed, or may separate a step that another process answered.
            case Entry(text=text) if not (step.cumulative and "*" in text):
                _prepare_error_screen(phone_step, row)
                if self._conversations.enter_cached(row, text, phone_step.input, phone_step.channel.display):
                    return self._screen_of_last_turn(row)
        return None

    def _answer(self, phone_step: PhoneStep) -> GatewayScreen:
        """Read the session and answer the step; waits while another step of the session is in progress."""
        known_turn = None
        for attempt in self._sessions.attempts(lambda: phone_step.client_id or phone_step.channel.channel_id):
            row = self._find_session(phone_step)
            if phone_step.step.kind in _END_KINDS:
                return self._hang_up(row, phone_step.step.kind)
            if attempt == 0 and row is not None:
                known_turn = row.turn
            if row is None or not self._sessions.is_claimed(row):
                screen = self._answer_as_read(row, known_turn, phone_step)
                if screen is not None:
                    return screen
        raise TimeoutError

    def _find_session(self, phone_step: PhoneStep) -> UssdSession | None:
        """The last session under the gateway's session id; raises when the channel is closed or the client disabled."""
        step, channel = phone_step.step, phone_step.channel
        keys = (channel.channel_id, step.provider_session_id, step.phone_number)
        if step.kind is StepKind.BEGIN:
            lookup = find_dial(*keys, phone_step.code, channel.client_id, phone_step.input.received_at)
        else:
            lookup = find_session(*keys)
        if not lookup.channel_is_active:
            raise ChannelClosedError
        phone_step.target = lookup.target
        if lookup.row is not None:
            if not lookup.client_is_active:
                raise NoScreenError
            _prepare_error_screen(phone_step, lookup.row)
        return lookup.row

    def _answer_as_read(
        self, row: UssdSession | None, known_turn: int | None, phone_step: PhoneStep
    ) -> GatewayScreen | None:
        """Answer a step to a session as it was read; None when another step has changed the session since."""
        answered = self._sessions.answered_steps(row, phone_step.input)
        match classify(phone_step.step, phone_step.code, answered, known_turn):
            case Repeat(turn=turn) if row is not None:
                return _screen_of(row.turns[turn])
            case Entry(text=text) if row is not None:
                call = phone_step.call_for(row.client_id)
                row = self._conversations.enter(row, text, phone_step.input, call, phone_step.channel.display)
            case Start() | Restart() if phone_step.input.effects.transaction_id is not None:
                # The session ended while the payment was being created.
                raise NoScreenError
            case Start(entries=entries):
                row = self._begin(row, phone_step, entries)
            case Restart():
                log.warning("a step does not fit its session, which begins anew")
                row = self._begin(row, phone_step, (), from_start=True)
            case _:
                raise NoScreenError
        return None if row is None else self._screen_of_last_turn(row)

    def _begin(
        self, previous: UssdSession | None, phone_step: PhoneStep, entries: tuple[str, ...], *, from_start: bool = False
    ) -> UssdSession | None:
        """Begin a session and end the previous one under the same session id; None when another step was faster."""
        step, channel, code, now = phone_step.step, phone_step.channel, phone_step.code, phone_step.input.received_at
        target = phone_step.target or find_target(code, channel.client_id, step.phone_number, now, is_phone=True)
        if target is None or not self._may_begin(phone_step):
            raise NoScreenError
        if (
            previous is not None
            and previous.status == SessionStatus.ACTIVE
            and not self._sessions.endings.end_for_redial(previous)
        ):
            return None
        dial = DialRequest(
            phone_number=step.phone_number,
            service_code=code,
            network=step.network,
            target=target,
            input=phone_step.input,
            context=phone_step.call_for(target.client_id),
            entries=entries,
            display=channel.display,
            from_start=from_start,
            provider_session_id=step.provider_session_id,
            previous_id=None if previous is None else previous.id,
        )
        return self._conversations.begin(dial)

    def _may_begin(self, phone_step: PhoneStep) -> bool:
        """Count one more conversation of this number on this channel. Costs the first step a round trip to Redis."""
        channel_id, number = phone_step.channel.channel_id, phone_step.step.phone_number
        if self._limiter.hit("conversations", f"{channel_id}/{number}").accepted:
            return True
        log.warning("a number began too many sessions", channel_id=channel_id)
        return False

    def _screen_of_last_turn(self, row: UssdSession) -> GatewayScreen:
        """The last screen of a session that was just written; keeps an active session in the cache."""
        if row.status == SessionStatus.ACTIVE:
            self._cache.keep(row)
        return _screen_of(row.turns[-1])

    def _hang_up(self, row: UssdSession | None, kind: StepKind) -> GatewayScreen:
        if row is not None and row.status == SessionStatus.ACTIVE:
            status = SessionStatus.TIMED_OUT if kind is StepKind.TIMEOUT else SessionStatus.ENDED_BY_USER
            self._sessions.endings.end(row, status, _END_KINDS[kind])
        return GatewayScreen(Action.END, "")

    def _record(self, report: SessionEnd, channel: CachedChannel) -> None:
        row = find_session(channel.channel_id, report.provider_session_id, report.phone_number).row
        if row is None:
            return
        failed = report.outcome is SessionOutcome.FAILED
        if row.status == SessionStatus.ACTIVE:
            status = SessionStatus.FAILED if failed else SessionStatus.ENDED_BY_USER
            self._sessions.endings.end(row, status, EndReason.NOT_DELIVERED if failed else EndReason.ABANDONED)
        elif failed:
            _mark_undelivered(row)


def _mark_undelivered(row: UssdSession) -> None:
    """Note on a completed session that its phone never got the last screen; a later one under its id is left alone."""
    if row.status == SessionStatus.COMPLETED:
        UssdSession.update(end_reason=EndReason.NOT_DELIVERED).where(UssdSession.id == row.id).execute()


def _screen_of(turn: Mapping[str, Any]) -> GatewayScreen:
    return GatewayScreen(Action(turn["action"]), turn["screen"])


def _prepare_error_screen(phone_step: PhoneStep, row: UssdSession) -> None:
    phone_step.client_id = row.client_id
    phone_step.language = row.language or phone_step.language
    phone_step.input.effects.may_have_paid = row.transaction_id is not None or may_be_paying(row)


def _answer_failure(adapter: str, error: Exception) -> GatewayReply:
    _log_failure(error)
    return _error_screen(adapter)


def _error_screen(adapter: str) -> GatewayReply:
    return ADAPTERS[adapter].write(GatewayScreen(Action.END, phrase("trouble", "en")), None)


def _log_failure(error: Exception) -> None:
    if isinstance(error, DATABASE_ERRORS):
        log.error(f"a step failed: {reason_of(error)}", error=type(error).__name__)
        close_connections()
    else:
        log.error("a step failed by a mistake of ours", error=trace_of(error))
