"""Octets that no honest operator sends: a bind reads, answers or ends the connection, and never stops or fails."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from ussd_server.smpp.bind import Bind, BindLostError, BindSettings, BindState, _Connection
from ussd_server.smpp.dialects import read_dialect
from ussd_server.smpp.pdu import HEADER, Address, CommandId, MalformedPduError, Message, Pdu, Status, Tag, decode_header
from ussd_server.smpp.steps import NoStepError, read_step

_DIALECT = read_dialect("default")
_STEP = Message(
    Address("256772123456", 1, 1),
    Address("384123"),
    b"*384*123#",
    tlvs={Tag.USSD_SERVICE_OP: b"\1", Tag.ITS_SESSION_INFO: b"\2\x6e"},
)
_HONEST = [
    Pdu(CommandId.DELIVER_SM, 0, 7, _STEP.encode()).encode(),
    Pdu(CommandId.ENQUIRE_LINK, 0, 8).encode(),
    Pdu(CommandId.SUBMIT_SM_RESP, 0, 1, b"1\0").encode(),
    Pdu(CommandId.UNBIND, 0, 9).encode(),
    Pdu(0x00000103, 0, 10, b"data").encode(),
]
_STREAMS = 10_000


class Taker:
    """Reads steps as the process does, and counts them."""

    def __init__(self) -> None:
        self.steps = 0

    def take(self, _bind: Bind, message: Message) -> Status:
        try:
            read_step(message, _DIALECT)
        except NoStepError as why:
            return why.status
        self.steps += 1
        return Status.OK


class Operator:
    """A listener on loopback that accepts binds and lets a test write raw octets to each."""

    def __init__(self) -> None:
        self.binds = asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]()
        self.writers: list[asyncio.StreamWriter] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        _, request = decode_header(await reader.readexactly(HEADER.size))
        await reader.readuntil(b"\x34\0\0\0")
        writer.write(Pdu(CommandId.BIND_TRANSCEIVER_RESP, 0, request.sequence, b"x\0").encode())
        await self.binds.put((reader, writer))


def attacked(attack: Callable[[Operator, Bind, Taker], Awaitable[None]]) -> None:
    """Run an attack on a bind, within twenty seconds."""

    async def run() -> None:
        operator, taker = Operator(), Taker()
        listener = socket.create_server(("127.0.0.1", 0))
        # Small, so that an operator that does not read is noticed soon.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        server = await asyncio.start_server(operator.accept, sock=listener)
        settings = BindSettings("channel", "127.0.0.1", server.sockets[0].getsockname()[1], "acme", "secret")
        bind = Bind(settings, taker.take, lambda: datetime.now(UTC))
        running = asyncio.create_task(bind.run())
        try:
            async with asyncio.timeout(20):
                await attack(operator, bind, taker)
            assert not running.done()
        finally:
            running.cancel()
            server.close()
            for writer in operator.writers:
                writer.transport.abort()
            await asyncio.gather(
                running, *(writer.wait_closed() for writer in operator.writers), return_exceptions=True
            )
            await asyncio.sleep(0)

    asyncio.run(run())


async def pdu_of(reader: asyncio.StreamReader) -> Pdu:
    length, pdu = decode_header(await reader.readexactly(HEADER.size))
    return Pdu(pdu.command, pdu.status, pdu.sequence, await reader.readexactly(length))


def mutated(chance: random.Random) -> bytes:
    """A few honest PDUs with flipped, lost, doubled or foreign octets."""
    octets = bytearray(b"".join(chance.choices(_HONEST, k=chance.randint(1, 4))))
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(octets) or 1)
        match chance.randrange(4):
            case 0:
                octets[at : at + 1] = bytes((chance.randrange(256),))
            case 1:
                del octets[at : at + chance.randint(1, 8)]
            case 2:
                octets[at:at] = octets[at : at + chance.randint(1, 40)]
            case 3:
                octets[at : at + 4] = chance.choice([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x10", b"\0\1\x11\x70"])
    return bytes(octets)


def test_mutated_streams_are_read_or_end_their_connection(tries: Callable[[int], int]) -> None:
    streams = tries(_STREAMS)
    chance, ended = random.Random(45), dict[type[BaseException], int]()

    async def read(octets: bytes, taker: Taker) -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(octets)
        reader.feed_eof()
        bind = Bind(BindSettings("channel", "", 1, "", ""), taker.take, lambda: datetime.now(UTC))
        connection = _Connection(reader, _Sink(), bind._handle, 10)  # type: ignore[arg-type]
        try:
            await connection.receive()
        except (MalformedPduError, BindLostError, asyncio.IncompleteReadError) as end:
            ended[type(end)] = ended.get(type(end), 0) + 1

    async def run() -> int:
        taker = Taker()
        for _ in range(streams):
            await read(mutated(chance), taker)
        return taker.steps

    steps = asyncio.run(run())
    assert steps > streams // 20, "the mutations leave steps that can be read"
    assert sum(ended.values()) == streams
    assert len(ended) == 3


class _Sink:
    """Takes what a connection writes."""

    def write(self, _octets: bytes) -> None:
        return

    async def drain(self) -> None:
        return

    def is_closing(self) -> bool:
        return False


def test_pdus_that_come_octet_by_octet_and_several_at_once_are_read() -> None:
    async def attack(operator: Operator, _bind: Bind, taker: Taker) -> None:
        reader, writer = await operator.binds.get()
        for octet in _HONEST[0]:
            writer.write(bytes((octet,)))
            await writer.drain()
            await asyncio.sleep(0)
        assert await pdu_of(reader) == Pdu(CommandId.DELIVER_SM_RESP, 0, 7, b"\0")
        writer.write(_HONEST[0] * 3 + _HONEST[1])
        answers = [(await pdu_of(reader)).command for _ in range(4)]
        assert answers == [CommandId.DELIVER_SM_RESP] * 3 + [CommandId.ENQUIRE_LINK_RESP]
        assert taker.steps == 4

    attacked(attack)


@pytest.mark.parametrize("length", [0, 1, 15, 70_001, 0x7FFFFFFF, 0xFFFFFFFF])
def test_an_impossible_length_is_refused_and_the_bind_comes_back(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ussd_server.smpp.bind._FIRST_PAUSE_SECONDS", 0.01)

    async def attack(operator: Operator, bind: Bind, _taker: Taker) -> None:
        reader, writer = await operator.binds.get()
        writer.write(HEADER.pack(length, CommandId.DELIVER_SM, 0, 1))
        assert await pdu_of(reader) == Pdu(CommandId.GENERIC_NACK, Status.INVALID_LENGTH, 0)
        assert await reader.read() == b""
        await operator.binds.get()
        while bind.state is not BindState.BOUND:
            await asyncio.sleep(0)

    attacked(attack)


def test_answers_that_nothing_asked_for_are_ignored() -> None:
    async def attack(operator: Operator, bind: Bind, _taker: Taker) -> None:
        reader, writer = await operator.binds.get()
        while not bind.is_bound:
            await asyncio.sleep(0)
        submitting = asyncio.create_task(bind.submit(_STEP))
        asked = await pdu_of(reader)
        for sequence in (0, asked.sequence + 1, 0x7FFFFFFF, 0xFFFFFFFF):
            writer.write(Pdu(CommandId.SUBMIT_SM_RESP, Status.SYSTEM_ERROR, sequence, b"1\0").encode())
        writer.write(Pdu(CommandId.ENQUIRE_LINK_RESP, 0, asked.sequence).encode())
        writer.write(_HONEST[1])
        assert (await pdu_of(reader)).command == CommandId.ENQUIRE_LINK_RESP
        assert not submitting.done(), "an answer to another command is no answer"
        writer.write(asked.response().encode() * 2)
        assert await submitting == Status.OK

    attacked(attack)


def test_a_flood_of_enquiries_is_answered_and_lets_other_work_go_on() -> None:
    flood = 10_000

    async def attack(operator: Operator, _bind: Bind, _taker: Taker) -> None:
        reader, writer = await operator.binds.get()
        longest, began = 0.0, time.perf_counter()

        async def others() -> None:
            nonlocal longest, began
            while True:
                await asyncio.sleep(0.001)
                now = time.perf_counter()
                longest, began = max(longest, now - began), now

        watching = asyncio.create_task(others())
        writer.write(_HONEST[1] * flood)
        await reader.readexactly(flood * HEADER.size)
        watching.cancel()
        assert longest < 2

    attacked(attack)


def test_an_operator_that_does_not_read_loses_its_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ussd_server.smpp.bind.ANSWER_SECONDS", 0.2)
    monkeypatch.setattr("ussd_server.smpp.bind._FIRST_PAUSE_SECONDS", 0.01)

    async def attack(operator: Operator, bind: Bind, _taker: Taker) -> None:
        _, writer = await operator.binds.get()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        while not bind.is_bound:
            await asyncio.sleep(0)
        assert bind._connection is not None
        ours: socket.socket = bind._connection._writer.get_extra_info("socket")
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        writer.write(_HONEST[1] * 20_000)
        await operator.binds.get()
        assert "does not read" in bind.reason

    attacked(attack)


def test_a_host_name_that_cannot_exist_is_a_reason_and_not_the_end_of_a_bind() -> None:
    async def run() -> None:
        bind = Bind(BindSettings("channel", "a" * 70, 2775, "", ""), Taker().take, lambda: datetime.now(UTC))
        running = asyncio.create_task(bind.run())
        async with asyncio.timeout(10):
            while bind.state is not BindState.WAITING:
                await asyncio.sleep(0.01)
        running.cancel()
        assert bind.reason == "the operator cannot be reached"

    asyncio.run(run())
