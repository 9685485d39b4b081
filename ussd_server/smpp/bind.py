"""One bind to an operator: connects, binds as transceiver, receives steps, submits screens, and connects again."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from ussd_server.logs import Logger
from ussd_server.smpp.pdu import (
    HEADER,
    RESPONSE,
    CommandId,
    MalformedPduError,
    Message,
    Pdu,
    Status,
    bind_transceiver,
    decode_header,
)

log = Logger(__name__)

QUIET_SECONDS = 30.0
ANSWER_SECONDS = 10.0
_RETRY_SECONDS = 10.0
_FIRST_RETRY_SECONDS = 0.3
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, _PAUSE_AFTER_REFUSAL_SECONDS = 1.0, 60.0, 5.0
_LAST_SEQUENCE = 0x7FFFFFFF
_BUSY = (Status.THROTTLED, Status.QUEUE_FULL)


class BindState(StrEnum):
    """The state of a bind. WAITING: it connects again after a pause."""

    CONNECTING = "connecting"
    BOUND = "bound"
    WAITING = "waiting"


class NotBoundError(Exception):
    """A request could not be sent: there is no bind."""


class UnansweredError(Exception):
    """A request was sent, and no answer came in time or the connection was lost: its outcome is unknown."""


class BindLostError(Exception):
    """The connection cannot be used any more; the message says why. `is_refusal`: the operator refused the bind."""

    def __init__(self, why: str, *, is_refusal: bool = False) -> None:
        super().__init__(why)
        self.is_refusal = is_refusal


@dataclass(frozen=True, slots=True)
class BindSettings:
    """Where to bind and as whom. `trust` is set for TLS. `window`: submits at a time that have no answer yet.

    Warnings in the log name `channel_id`.
    """

    channel_id: str
    host: str
    port: int
    system_id: str
    password: str = field(repr=False)
    trust: ssl.SSLContext | None = None
    window: int = 10


class Bind:
    """Keeps one bind up. `take` gets each message and returns the status of its response at once.

    `is_closing` is set by the owner: later messages are refused, so that the operator sends them elsewhere.
    """

    def __init__(
        self, settings: BindSettings, take: Callable[[Bind, Message], Status], now: Callable[[], datetime]
    ) -> None:
        self._settings = settings
        self._take = take
        self._now = now
        self._connection: _Connection | None = None
        self.counts = Counter[str]()
        self.is_closing = False
        self.reason = ""
        self.state = BindState.CONNECTING
        self.since = now()

    @property
    def is_bound(self) -> bool:
        """Whether screens can be submitted."""
        return self.state is BindState.BOUND

    async def run(self) -> None:
        """Bind, and bind again after each loss, until the task is cancelled; then unbind."""
        pause = _FIRST_PAUSE_SECONDS
        while True:
            is_refusal = False
            try:
                self._change(BindState.CONNECTING, self.reason)
                await self._serve()
            except BindLostError as lost:
                why, is_refusal = str(lost), lost.is_refusal
            except MalformedPduError as garbage:
                why = f"the operator sent garbage: {garbage}"
            except TimeoutError:
                why = "no connection in time"
            except (OSError, EOFError, UnicodeError) as error:
                why = _why(error)
            if self.is_bound:
                pause = _FIRST_PAUSE_SECONDS
            if is_refusal:
                pause = max(pause, _PAUSE_AFTER_REFUSAL_SECONDS)
            channel_id = self._settings.channel_id
            log.warning("a bind was lost or refused", why=why, pause_seconds=pause, channel_id=channel_id)
            self._change(BindState.WAITING, why)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    async def submit(self, message: Message, was_sent: Callable[[], None] = lambda: None) -> int:
        """Submit a message and return the status; tries again for ten seconds while the operator has no room.

        Calls `was_sent` each time that the message was sent. Raises NotBoundError and UnansweredError.
        """
        pause, loop = _FIRST_RETRY_SECONDS, asyncio.get_running_loop()
        last_attempt_at = loop.time() + _RETRY_SECONDS
        while True:
            if self._connection is None or not self.is_bound:
                raise NotBoundError
            self.counts["submitted"] += 1
            answer = await self._connection.request(CommandId.SUBMIT_SM, message.encode(), was_sent=was_sent)
            if answer.status not in _BUSY:
                return answer.status
            self.counts["throttled"] += 1
            if loop.time() + pause > last_attempt_at:
                return answer.status
            await asyncio.sleep(pause)
            pause *= 2

    async def _serve(self) -> None:
        """Serve one connection until it is lost. Raises what it was lost by."""
        settings = self._settings
        async with asyncio.timeout(ANSWER_SECONDS):
            streams = await asyncio.open_connection(settings.host, settings.port, ssl=settings.trust)
        connection = self._connection = _Connection(*streams, self._handle, settings.window)
        receiving = asyncio.create_task(connection.receive())
        request = bind_transceiver(settings.system_id, settings.password)
        binding = asyncio.create_task(connection.request(CommandId.BIND_TRANSCEIVER, request))
        try:
            await asyncio.wait((receiving, binding), return_when=asyncio.FIRST_COMPLETED)
            if not binding.done():
                await receiving
            answer = await _answered(binding)
            if answer.command != CommandId.BIND_TRANSCEIVER_RESP or answer.status != Status.OK:
                raise BindLostError(f"the operator refused the bind with status {answer.status:#x}", is_refusal=True)
            self.counts["binds"] += 1
            self._change(BindState.BOUND, "")
            await receiving
        except asyncio.CancelledError:
            with suppress(UnansweredError, NotBoundError, OSError):
                await connection.request(CommandId.UNBIND, b"", 1.0)
            raise
        finally:
            self._connection = None
            connection.close()
            receiving.cancel()
            # Both have ended now; what they raise is known already.
            await asyncio.gather(receiving, binding, return_exceptions=True)

    async def _handle(self, connection: _Connection, request: Pdu) -> None:
        """Answer one request of the operator."""
        match request.command:
            case CommandId.DELIVER_SM:
                self.counts["received"] += 1
                await connection.send(request.response(self._deliver(request)))
            case CommandId.ENQUIRE_LINK:
                await connection.send(request.response())
            case CommandId.UNBIND:
                await connection.send(request.response())
                raise BindLostError("the operator unbound")
            case _:
                await connection.send(Pdu(CommandId.GENERIC_NACK, Status.INVALID_COMMAND, request.sequence))

    def _deliver(self, request: Pdu) -> int:
        if self.is_closing:
            return Status.QUEUE_FULL
        try:
            message = Message.decode(request.body)
        except MalformedPduError as why:
            log.warning("a deliver_sm cannot be read", why=str(why))
            self.counts["refused"] += 1
            return Status.INVALID_LENGTH
        status = self._take(self, message)
        if status != Status.OK:
            self.counts["refused"] += 1
        return status

    def _change(self, state: BindState, reason: str) -> None:
        if (state, reason) != (self.state, self.reason):
            self.state, self.reason, self.since = state, reason, self._now()


class _Connection:
    """One TCP or TLS connection: sends PDUs, gives answers to their requests and requests to `handle`."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        handle: Callable[[_Connection, Pdu], Awaitable[None]],
        window: int,
    ) -> None:
        self._reader, self._writer = reader, writer
        self._handle = handle
        self._window = asyncio.Semaphore(window)
        self._sequence = 0
        # Each request that waits for its answer, by its sequence number: the command of the answer, and the answer.
        self._waiting = dict[int, tuple[int, asyncio.Future[Pdu]]]()

    async def send(self, pdu: Pdu) -> None:
        """Send a PDU. Raises BindLostError when the operator does not read."""
        self._writer.write(pdu.encode())
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._writer.drain()
        except TimeoutError:
            raise BindLostError("the operator does not read") from None

    async def request(
        self,
        command: CommandId,
        body: bytes,
        seconds: float = ANSWER_SECONDS,
        *,
        was_sent: Callable[[], None] = lambda: None,
    ) -> Pdu:
        """Send a request and return its answer. At most the window's number wait at a time.

        Raises NotBoundError when it was not sent, UnansweredError when no answer came.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._window.acquire()
        except TimeoutError:
            raise NotBoundError from None
        try:
            if self._writer.is_closing():
                raise NotBoundError
            self._sequence = self._sequence % _LAST_SEQUENCE + 1
            sequence = self._sequence
            answer: asyncio.Future[Pdu] = asyncio.get_running_loop().create_future()
            self._waiting[sequence] = (command | RESPONSE, answer)
            try:
                async with asyncio.timeout(seconds):
                    await self.send(Pdu(command, Status.OK, sequence, body))
                    was_sent()
                    return await answer
            except (OSError, BindLostError):  # TimeoutError too
                raise UnansweredError from None
            finally:
                del self._waiting[sequence]
        finally:
            self._window.release()

    async def receive(self) -> None:
        """Read PDUs until the connection is lost; asks for a sign of life after thirty quiet seconds."""
        while True:
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    header = await self._reader.readexactly(HEADER.size)
            except TimeoutError:
                header = await self._header_after_enquiry()
            try:
                length, pdu = decode_header(header)
            except MalformedPduError:
                # Nothing behind it can be read: no one knows where the next PDU begins.
                await self.send(Pdu(CommandId.GENERIC_NACK, Status.INVALID_LENGTH, 0))
                raise
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    body = await self._reader.readexactly(length)
            except TimeoutError:
                raise BindLostError("the operator stopped within a PDU") from None
            pdu = Pdu(pdu.command, pdu.status, pdu.sequence, body)
            if not pdu.is_response:
                await self._handle(self, pdu)
            elif pdu.sequence in self._waiting:
                self._take_answer(pdu)
            # A flood must not keep the loop from the other binds.
            await asyncio.sleep(0)

    def _take_answer(self, pdu: Pdu) -> None:
        """Give an answer to its request; one to another command is none."""
        command, answer = self._waiting[pdu.sequence]
        if pdu.command in (command, CommandId.GENERIC_NACK) and not answer.done():
            answer.set_result(pdu)

    async def _header_after_enquiry(self) -> bytes:
        # The answer needs no place in the window: whatever the operator sends is a sign of life.
        self._sequence = self._sequence % _LAST_SEQUENCE + 1
        await self.send(Pdu(CommandId.ENQUIRE_LINK, Status.OK, self._sequence))
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._reader.readexactly(HEADER.size)
        except TimeoutError:
            raise BindLostError("the operator does not answer enquire_link") from None

    def close(self) -> None:
        """Close the connection; requests without an answer raise UnansweredError."""
        self._writer.transport.abort()
        for _, answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionError())


async def _answered(binding: asyncio.Task[Pdu]) -> Pdu:
    try:
        return await binding
    except (UnansweredError, NotBoundError):
        raise BindLostError("the operator does not answer the bind") from None


def _why(error: Exception) -> str:
    """Say why a connection failed without an address or a text of a library."""
    match error:
        case ssl.SSLCertVerificationError():
            return "the operator's certificate is not trusted"
        case ssl.SSLError():
            return "no TLS with the operator"
        case ConnectionRefusedError():
            return "the operator refuses connections"
        case asyncio.IncompleteReadError() | ConnectionError():
            return "the operator closed the connection"
        case _:
            return "the operator cannot be reached"
