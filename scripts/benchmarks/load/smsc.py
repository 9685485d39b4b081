"""An operator's side of SMPP that sends steps as fast as the screens come, for `smpp`."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from benchmarks.load.generator import Outcome
from benchmarks.load.requests import CODE
from ussd_server.smpp.pdu import HEADER, Address, CommandId, Message, Pdu, Tag, decode_header

PASSWORD = "bench"
_BEGIN, _CONTINUE, _LAST = 1, 18, 17
_CHOICES = 3
_FINISH = "9"
_SCREEN_SECONDS = 20.0
_SESSIONS = itertools.count(random.randrange(2**15))


class LoadSmsc:
    """Takes binds on a port of this machine, and spreads the sessions over them."""

    def __init__(self) -> None:
        self.port = 0
        self.bound = asyncio.Event()
        self._binds: list[asyncio.StreamWriter] = []
        self._screens: dict[str, asyncio.Future[Message]] = {}
        self._sequence = itertools.count(1)
        self._serving = set[asyncio.Task[None] | None]()

    @classmethod
    @asynccontextmanager
    async def listening(cls) -> AsyncIterator[LoadSmsc]:
        """Listen until the block ends."""
        smsc = cls()
        server = await asyncio.start_server(smsc._serve, "127.0.0.1", 0)
        smsc.port = server.sockets[0].getsockname()[1]
        try:
            yield smsc
        finally:
            server.close()
            for bind in smsc._binds:
                bind.close()
            await asyncio.gather(*filter(None, smsc._serving))

    async def step(self, phone: str, session: int, text: str, *, begins: bool = False) -> tuple[str, bool]:
        """Send one step; return its screen, and whether the session goes on."""
        tlvs = {
            Tag.USSD_SERVICE_OP.value: bytes((_BEGIN if begins else _CONTINUE,)),
            Tag.ITS_SESSION_INFO.value: (session << 1).to_bytes(2),
        }
        message = Message(Address(phone, 1, 1), Address("100"), text.encode("ascii"), tlvs=tlvs)
        screen = self._screens[phone] = asyncio.get_running_loop().create_future()
        bind = self._binds[session % len(self._binds)]
        bind.write(Pdu(CommandId.DELIVER_SM, 0, next(self._sequence), message.encode()).encode())
        async with asyncio.timeout(_SCREEN_SECONDS):
            reply = await screen
        return reply.text.decode("latin-1"), reply.tlvs[Tag.USSD_SERVICE_OP] != bytes((_LAST,))

    async def load(self, phones: int, seconds: float) -> Outcome:
        """Let so many phones dial one session after the other; a screen that is wrong or late is an error."""
        latencies: list[float] = []
        ends_at = time.perf_counter() + seconds
        await asyncio.gather(*(self._dial_until(ends_at, f"2567{number:08}", latencies) for number in range(phones)))
        ordered = sorted(latencies)
        p50, p99 = (1000 * ordered[math.ceil(share * len(ordered)) - 1] for share in (0.5, 0.99))
        return Outcome(len(ordered), len(ordered), seconds, p50, p99)

    async def _dial_until(self, ends_at: float, phone: str, latencies: list[float]) -> None:
        while time.perf_counter() < ends_at:
            session = next(_SESSIONS) % 2**15
            choices = [str(random.randrange(1, 9)) for _ in range(_CHOICES)]
            for entry in (CODE, *choices, _FINISH):
                began = time.perf_counter()
                text, goes_on = await self.step(phone, session, entry, begins=entry == CODE)
                if goes_on is (entry == _FINISH) or not text.startswith("Thank you" if entry == _FINISH else "Place"):
                    raise RuntimeError(f"the screen after {entry} is {text!r}")
                if time.perf_counter() < ends_at or not latencies:
                    latencies.append(time.perf_counter() - began)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving.add(asyncio.current_task())
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                length, pdu = decode_header(await reader.readexactly(HEADER.size))
                self._answer(writer, Pdu(pdu.command, pdu.status, pdu.sequence, await reader.readexactly(length)))

    def _answer(self, writer: asyncio.StreamWriter, pdu: Pdu) -> None:
        if pdu.is_response:
            return
        writer.write(pdu.response().encode() if pdu.command != CommandId.BIND_TRANSCEIVER else _bound(pdu))
        if pdu.command == CommandId.BIND_TRANSCEIVER:
            self._binds.append(writer)
            self.bound.set()
        elif pdu.command == CommandId.SUBMIT_SM:
            screen = Message.decode(pdu.body)
            waiting = self._screens.get(screen.destination.number)
            if waiting is not None and not waiting.done():
                waiting.set_result(screen)


def _bound(pdu: Pdu) -> bytes:
    return Pdu(CommandId.BIND_TRANSCEIVER_RESP, 0, pdu.sequence, b"bench\0").encode()
