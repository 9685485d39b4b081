"""How many of our files a reader meets on the way of one warm call, from the socket to the commit and back."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from flask.testing import FlaskClient

import schemas
import ussd_server
from tests.support.example_client import Browser
from tests.support.program import Program
from tests.support.shop import CODE, PHONE, Shop
from ussd_server.bootstrap import Services

_OURS = tuple(str(Path(package.__path__[0])) for package in (schemas, ussd_server))
MOST_OF_A_PAYMENT, MOST_OF_A_STEP, MOST_OF_A_DELETION = 42, 62, 35


def files_of(call: Callable[[], object]) -> list[str]:
    """The files whose functions a call runs, in this thread and in those that it starts."""
    seen: set[str] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(_OURS):
            seen.add(frame.f_code.co_filename)

    sys.setprofile(note)
    threading.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return sorted(seen)


def test_a_payment_passes_few_files(services: Services, web: FlaskClient) -> None:
    program = Program(services, web)
    for number in range(3):
        assert program.collect(f"warm {number}").status_code == 201
    files = files_of(lambda: program.collect("traced"))
    assert len(files) <= MOST_OF_A_PAYMENT, files


def test_a_phone_step_that_pays_passes_few_files(shop: Shop, web: FlaskClient) -> None:
    def step(session: str, *entries: str) -> None:
        form = {"sessionId": session, "phoneNumber": PHONE, "networkCode": "64110", "serviceCode": CODE}
        assert web.post(shop.channel.gateway_path, data=form | {"text": "*".join(entries)}).text[:4] in ("CON ", "END ")

    entries = ("1", "900", "1")
    for session, last in (("warm", 3), ("traced", 2)):
        for count in range(last + 1):
            step(session, *entries[:count])
    files = files_of(lambda: step("traced", *entries))
    assert len(files) <= MOST_OF_A_STEP, files


def test_the_deletion_of_a_key_passes_few_files(owner: Browser) -> None:
    warm, traced = (owner.ask("POST", "api-keys").json["data"]["id"] for _ in range(2))
    owner.ask("DELETE", f"api-keys/{warm}")
    files = files_of(lambda: owner.ask("DELETE", f"api-keys/{traced}"))
    assert len(files) <= MOST_OF_A_DELETION, files
