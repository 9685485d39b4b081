"""The controls: the book and its restart, the switches and their refusals, the clock, and the command line."""

import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from simulators.airtel import AirtelMoney, AirtelSettings
from simulators.mtn import MtnMomo
from simulators.server import run
from tests.simulators.callers import AirtelCaller, Controls, Listener, MtnCaller


def test_the_book_shows_what_happened(mtn: MtnCaller, listener: Listener) -> None:
    reference = mtn.pay(url=listener.url)
    listener.next()
    (payment,) = mtn.book(reference)["payments"]
    assert (payment["kind"], payment["amount_cents"], payment["currency"]) == ("requesttopay", 150000, "EUR")
    assert (payment["party"], payment["status"], payment["paid"]) == ("256772123456", "SUCCESSFUL", True)
    assert [step["status"] for step in payment["history"]] == ["PENDING", "SUCCESSFUL"]
    assert mtn.counted("requesttopay", reference) == 1
    assert mtn.book("unknown")["payments"] == []


def test_the_statement_of_the_book_has_every_payment_in_each_form(mtn: MtnCaller) -> None:
    mtn.pay()
    mtn.pay()
    for query, encoding in {"": "utf-8", "?encoding=utf-16&separator=tab&dates=day-first": "utf-16"}.items():
        text = mtn.http.get(f"/_control/statement{query}").content.decode(encoding)
        assert text.count("Successful") == text.count("FRI:256772123456/MSISDN") == 2
        assert ("Total lines\t2" if "tab" in query else "Total lines,2") in text
    assert "Total lines,0" in mtn.http.get("/_control/statement?day=2020-01-01").text
    assert mtn.http.get("/_control/statement?file=xlsx").content.startswith(b"PK")
    assert mtn.http.get("/_control/statement?file=pdf").status_code == 400


@pytest.mark.parametrize(
    "body",
    [
        [],
        None,
        {"no_such_switch": True},
        {"callbacks": 1},
        {"callbacks": "off"},
        {"slow_seconds": -1},
        {"slow_seconds": True},
        {"slow_seconds": None},
        {"error_status": 200},
        {"error_status": 600},
        {"callback_method": "GET"},
        {"callback_copies": 1.5},
        {"callback_copies": True},
        {"calls": ["everything"]},
        {"calls": "submit"},
        {"times": -1},
        {"garbage": True, "endless": True},
        {"silent_after_accept": True, "silent_before_accept": True},
        {"success_after_failure": True, "failure_after_success": True},
    ],
)
def test_a_wrong_switch_is_refused_and_changes_nothing(mtn: MtnCaller, body: Any) -> None:
    before = mtn.http.get("/_control/switches").json()
    assert mtn.http.put("/_control/switches", json=body).status_code == 400
    assert mtn.http.get("/_control/switches").json() == before


def test_switches_add_up_until_they_are_restored(mtn: MtnCaller) -> None:
    at_first = mtn.http.get("/_control/switches").json()
    mtn.switch(callback_copies=2)
    mtn.switch(times=3)
    now = mtn.http.get("/_control/switches").json()
    assert (now["callback_copies"], now["times"]) == (2, 3)
    assert mtn.http.delete("/_control/switches").json() == at_first


@pytest.mark.parametrize(
    "body", [None, {}, {"advance_seconds": "5"}, {"advance_seconds": -1}, {"advance_seconds": True}]
)
def test_the_clock_moves_forward_by_numbers_only(mtn: MtnCaller, body: Any) -> None:
    assert mtn.http.post("/_control/clock", json=body).status_code == 400
    assert mtn.http.get("/_control/clock").json()["offset_seconds"] == 0


def test_a_reset_deletes_everything(mtn: MtnCaller) -> None:
    mtn.pay()
    mtn.advance(100)
    mtn.switch(garbage=True)
    assert mtn.http.post("/_control/reset").status_code == 200
    book = mtn.book()
    assert (book["payments"], book["requests"], book["callbacks"]) == ([], [], [])
    assert mtn.http.get("/_control/clock").json()["offset_seconds"] == 0
    assert mtn.account("account/balance").status_code == 401


def test_mtns_book_outlives_a_restart(tmp_path: Path, listener: Listener) -> None:
    path = str(tmp_path / "mtn.book")
    with run(MtnMomo(book_path=path)) as base_url, MtnCaller(base_url).provision() as before:
        before.switch(callback_delay_seconds=600, approve_delay_seconds=60)
        reference = before.pay(url=listener.url)
        before.advance(100)
        assert before.outcome(reference) == ("SUCCESSFUL", "")
    with run(MtnMomo(book_path=path)) as base_url, MtnCaller(base_url) as after:
        after.user, after.key, after.tokens = before.user, before.key, before.tokens
        assert after.outcome(reference) == ("SUCCESSFUL", "")
        assert after.submit(reference=reference).status_code == 409
        assert listener.received.empty()
        after.advance(600)
        assert listener.next()[1]["status"] == "SUCCESSFUL"


def test_airtels_key_outlives_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "airtel.book")
    with run(AirtelMoney(book_path=path)) as base_url, AirtelCaller(base_url) as before:
        pin = before.encrypt(b"1234")
    with run(AirtelMoney(AirtelSettings(), path)) as base_url, AirtelCaller(base_url) as after:
        assert after.disburse("txn-1", pin=pin).json()["data"]["transaction"]["status"] == "TS"


def test_one_reference_requested_many_times_at_once_is_accepted_once(mtn: MtnCaller) -> None:
    reference = "5f2f1a58-2a2c-4d39-9a5d-0d4a0e0b8c11"
    mtn.headers("collection")
    responses: list[int] = []
    threads = [
        threading.Thread(target=lambda: responses.append(mtn.submit(reference=reference).status_code))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(responses) == [202] + [409] * 15
    assert mtn.counted("requesttopay", reference) == 16


def test_a_killed_provider_still_has_what_it_accepted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "simulators.mtn", "--port", "0", "--book", str(tmp_path / "book")]
    reference, user, key = "", "", ""
    tokens: dict[str, str] = {}
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                with MtnCaller(process.stdout.readline().split()[-1]) as caller:
                    if reference:
                        caller.user, caller.key, caller.tokens = user, key, tokens
                        assert caller.outcome(reference) == ("SUCCESSFUL", "")
                        assert caller.counted("requesttopay", reference) == 1
                    else:
                        reference = caller.provision().pay()
                        user, key, tokens = caller.user, caller.key, caller.tokens
            finally:
                process.kill()


@pytest.mark.parametrize(
    ("module", "options", "path"),
    [
        ("simulators.mtn", ["--environment", "mtnuganda", "--callback-delay", "5"], "/v1_0/apiuser"),
        ("simulators.airtel", ["--approve-delay", "5"], "/auth/oauth2/token"),
    ],
)
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_a_stand_in_runs_as_a_process_and_ends_on_a_signal(
    tmp_path: Path, module: str, options: list[str], path: str, end: signal.Signals
) -> None:
    command = [sys.executable, "-m", module, "--port", "0", "--book", str(tmp_path / "book"), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            base_url = process.stdout.readline().split()[-1]
            assert base_url.startswith("http://127.0.0.1:")
            with Controls(base_url) as controls:
                assert controls.http.post(path, json={}).status_code in (400, 404)
                assert controls.book()["requests"][0]["count"] == 1
                delays = controls.http.get("/_control/switches").json()
                assert 5 in (delays["approve_delay_seconds"], delays["callback_delay_seconds"])
            process.send_signal(end)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, errors) == (0, "")
