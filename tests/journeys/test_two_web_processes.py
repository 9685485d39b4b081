"""Two web processes on one database: a phone step is done once, whichever of them receives it."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from urllib.parse import urlencode

import pytest

from tests.server.callers import serving
from tests.support.shop import CODE, PHONE, Shop
from ussd_server.bootstrap import Services
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession
from ussd_server.settings import Settings

_TIMES = 20


@pytest.fixture
def ports(services: Services, settings: Settings) -> Iterator[list[int]]:
    """Where two web processes listen, each a server of its own with one worker."""
    with ExitStack() as stack:
        yield [stack.enter_context(_serving(settings, number)) for number in range(2)]


@contextmanager
def _serving(settings: Settings, number: int) -> Iterator[int]:
    folder = settings.data_dir / f"web-{number}"
    folder.mkdir()
    own = settings.database_url, settings.redis_url
    secrets_file, threads = str(settings.secrets_file), str(settings.threads)
    with serving(folder, *own, is_quiet=False, USSD_SECRETS_FILE=secrets_file, USSD_THREADS=threads) as (port, _):
        yield port


def post(port: int, path: str, text: str) -> bytes:
    """A step as Africa's Talking sends it; gives the body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        form = {"sessionId": "ATUid_1", "phoneNumber": PHONE, "serviceCode": CODE, "text": text}
        connection.request("POST", path, urlencode(form), {"Content-Type": "application/x-www-form-urlencoded"})
        answer = connection.getresponse()
        assert answer.status == http.HTTPStatus.OK
        return answer.read()
    finally:
        connection.close()


def test_the_confirm_step_posted_twenty_times_at_once_pays_once_and_answers_alike(
    services: Services, ports: list[int]
) -> None:
    path = Shop(services).channel.gateway_path
    for number, text in enumerate(("", "1", "1*5000")):
        post(ports[number % 2], path, text)
    together = threading.Barrier(_TIMES)

    def confirm(number: int) -> bytes:
        together.wait(30)
        return post(ports[number % 2], path, "1*5000*1")

    with ThreadPoolExecutor(_TIMES) as pool:
        answers = list(pool.map(confirm, range(_TIMES)))
    assert answers == [b"END Approve the prompt on your phone."] * _TIMES
    session, payment = UssdSession.get(), Transaction.get()
    assert (Transaction.select().count(), len(session.turns), session.transaction_id) == (1, 4, payment.id)
