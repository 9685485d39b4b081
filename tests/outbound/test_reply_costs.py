"""No reply or report of another server costs more than four times what a plain one of its size costs (P31).

With `-s` the tests print what they measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest

from tests.outbound.strange_server import StrangeServer, answer, polite
from tests.support import worst_inputs
from tests.support.cooperative import run_cooperatively
from tests.support.costs import LIMIT, worst_ratio
from ussd_server.outbound import client_server
from ussd_server.outbound.client_server import NoAnswerError
from ussd_server.outbound.transport import Transport
from ussd_server.parsing import json_text
from ussd_server.providers.http import replies
from ussd_server.senders.africastalking import AfricasTalkingSender
from ussd_server.senders.messages import SmsAccess

SIZE = 64 * 1024
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def cost(read: Callable[[bytes], object], body: bytes) -> float:
    began = time.thread_time()
    with suppress(NoAnswerError):
        read(body)
    return (time.thread_time() - began) * 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("title", "read"),
    [("JSON, a reply to an `http` node", client_server.read_json), ("JSON, a provider's reply", replies.parse)],
)
def test_a_reply_costs_no_more_than_four_plain_ones(
    title: str, read: Callable[[bytes], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is read beside other calls is measured below.
    monkeypatch.setattr(json_text, "in_native_thread", lambda *_, **__: None)
    plain = partial(cost, read, worst_inputs.plain_json(SIZE))
    bodies = ((name, partial(cost, read, body)) for name, body in worst_inputs.json_bodies(SIZE, 690))
    ratio, name = worst_ratio(plain, bodies)
    print(f"| {title} | {ratio:.1f} | {name} |")
    assert ratio <= LIMIT, (title, name)


@pytest.mark.slow
def test_a_report_of_a_sender_costs_no_more_than_four_plain_ones() -> None:
    sender = AfricasTalkingSender(SmsAccess("africastalking", "http://127.0.0.1", "acme", "key"), Transport())
    plain = partial(cost, sender.read_report, worst_inputs.plain_form(SIZE))
    bodies = ((name, partial(cost, sender.read_report, body)) for name, body in worst_inputs.form_bodies(SIZE))
    ratio, name = worst_ratio(plain, bodies)
    print(f"| Form of 64 KiB, a report of a sender of messages | {ratio:.1f} | {name} |")
    assert ratio <= LIMIT, name


_MANY_VALUES = """
import json, time
from ussd_server.outbound.client_server import read_json

def cost(body):
    began = time.thread_time()
    read_json(body)
    return time.thread_time() - began

size = 64 * 1024
plain, decimals = json.dumps(["a" * (size - 4)]).encode(), b"[" + b"0.1," * (size // 4) + b"1]"
cost(decimals)
print(json.dumps(min(cost(decimals) for _ in range(20)) / min(cost(plain) for _ in range(20))))
"""


@pytest.mark.slow
def test_a_reply_of_many_values_is_read_beside_other_calls() -> None:
    assert run_cooperatively(_MANY_VALUES) <= LIMIT


def replies_on_the_wire() -> Iterator[tuple[str, bytes]]:
    """Replies of at most 64 KiB whose framing is the most work."""
    for size in (1, 2, 16, 64, 300):
        yield f"chunks of {size}", CHUNKED + (b"%x\r\n%s\r\n" % (size, b"a" * size)) * (SIZE // size) + b"0\r\n\r\n"
    end = b"Content-Length: 1\r\n\r\na"
    yield "headers", b"HTTP/1.1 200 OK\r\n" + b"a:b\r\n" * 9000 + end
    yield "folded headers", b"HTTP/1.1 200 OK\r\na:b\r\n" + b" b\r\n" * 9000 + end
    yield "continuations", b"HTTP/1.1 100 C\r\n\r\n" * 2500 + b"HTTP/1.1 200 OK\r\n" + end
    yield "chunks with names", CHUNKED + (b"1;" + b"n" * 200 + b"\r\na\r\n") * (SIZE // 200) + b"0\r\n\r\n"
    for name, line in (("trailers", b"a:b\r\n"), ("folded trailers", b" b\r\n"), ("short trailers", b"a:\n")):
        yield name, CHUNKED + b"1\r\na\r\n0\r\na:b\r\n" + line * (SIZE // len(line)) + b"\r\n"
    trailers = b"a:b\r\n" * 8000
    yield "trailers at once", CHUNKED + b"0;n\r\n" + trailers + b"\r\n"
    yield "trailers late", CHUNKED + b"%x\r\n%s\r\n0\r\n" % (SIZE // 2, b"a" * (SIZE // 2)) + trailers + b"\r\n"


def test_a_head_and_a_trailer_have_at_most_200_lines_and_a_body_any() -> None:
    transport = Transport()
    for reply, is_taken in [
        (answer("200 OK", b"\n" * 5000, "A: b\r\n" * 150), True), (answer("200 OK", b"a", "A: b\r\n" * 201), False),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 90 + answer("200 OK", b"\n" * 5000), True),
        (b"HTTP/1.1 100 Continue\r\n\r\n" * 101 + answer("200 OK", b"a"), False),
        (CHUNKED + b"4\r\n\n0\r\n\r\n0\r\n" + b"A: b\r\n" * 150 + b"\r\n", True),
        (CHUNKED + b"1\r\na\r\n0\r\n" + b"A: b\r\n" * 201 + b"\r\n", False),
    ]:  # fmt: skip
        with StrangeServer(polite(reply)) as server:
            assert transport.exchange("POST", server.url, timeout_seconds=20).complete is is_taken
    transport.close()


@pytest.mark.slow
def test_a_reply_costs_no_more_than_four_plain_ones_to_receive() -> None:
    transport = Transport()

    def receive(reply: bytes) -> float:
        with StrangeServer(polite(reply)) as server:
            began = time.thread_time()
            transport.exchange("POST", server.url, timeout_seconds=20)
            return (time.thread_time() - began) * 1000

    plain = partial(receive, answer("200 OK", b"a" * SIZE))
    ratio, name = worst_ratio(plain, ((name, partial(receive, reply)) for name, reply in replies_on_the_wire()))
    transport.close()
    print(f"| HTTP, a reply of 64 KiB | {ratio:.1f} | {name} |")
    assert ratio <= LIMIT, name
