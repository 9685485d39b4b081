"""`dial`: a conversation in the terminal, with a running server and with a file alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask import Flask
from werkzeug.serving import make_server

from tests.cli.conftest import run
from tests.support.program import Program
from tests.support.shop import CODE, PHONE, Shop, shop_document
from ussd_server.bootstrap import Services
from ussd_server.database.unit_of_work import release_connection
from ussd_server.models.transactions import Transaction
from ussd_server.models.ussd import UssdSession


@pytest.fixture
def base_url(app: Flask) -> Iterator[str]:
    """The application on a port of this machine."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_bill_is_paid_from_the_terminal(
    base_url: str, services: Services, app: Flask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(services)
    program = Program(services, app.test_client(), client_id=shop.client_id)
    demonstration = {
        "base_url": base_url,
        "gateway_path": shop.channel.gateway_path,
        "apikey": program.headers["x-api-key"],
        "apisecret": program.headers["x-api-secret"],
    }
    (tmp_path / "demo.json").write_text(json.dumps(demonstration))
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))
    result = run("dial", CODE, "--phone", PHONE, typed="1\n5000\n1\n")
    assert result.exit_code == 0, result.output
    assert result.output == (
        "Welcome to ACME\n1. Pay\n2. Balance\n3. Language\n4. Voucher\n-- 56 of 160 septets, root\n\n"
        "Enter amount (UGX)\n0 Back\n-- 25 of 160 septets, amount\n\n"
        "Pay UGX 5,000?\n1. Yes\n2. No\n0 Back\n-- 34 of 160 septets, sure\n\n"
        "Approve the prompt on your phone.\n-- 33 of 160 septets, pay.accepted, ended\n\n"
    )
    assert Transaction.select().count() == 1
    release_connection()


def test_another_channel_is_dialled_by_its_path_without_the_key(base_url: str, services: Services) -> None:
    shop = Shop(services)
    arguments = ["dial", CODE, "--phone", PHONE, "--base-url", base_url, "--channel", shop.channel.gateway_path]
    result = run(*arguments, "--text", "1*5000", "--json", typed="")
    (screen,) = json.loads(result.output)["screens"]
    assert screen == {"message": "Pay UGX 5,000?\n1. Yes\n2. No\n0 Back", "ends": False, "node": "", "septets": 34}
    assert UssdSession.select().count() == 1
    wrong = run(*arguments[:-1], "/ussd/africastalking/x")
    assert (wrong.exit_code, wrong.output) == (1, "Error: The server refuses this channel (HTTP 404).\n")
    release_connection()


def test_a_file_alone_is_enough(tmp_path: Path) -> None:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(shop_document()))
    wrong = run("dial", CODE, "--phone", "077", "--menu", str(path))
    assert (wrong.exit_code, "'077' is not a Ugandan number" in wrong.output) == (2, True)
    typed = PHONE.replace("+256", "0")
    result = run("dial", CODE, "--phone", typed, "--menu", str(path), typed="4\n7391\n1\n")
    assert result.output.count("--") == 4
    assert result.output.endswith("Goodbye\n-- 7 of 160 septets, bye, ended\n\n")


def test_a_server_that_a_file_names_is_not_called_and_its_answer_can_be_given(tmp_path: Path) -> None:
    asking = {
        "type": "http",
        "url": "https://acme.example/",
        "goto": "said",
        "on_error": "bye",
        "map": {"code": "open"},
    }
    said = {"type": "end", "text": {"en": "It is {{vars.code}}"}}
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(shop_document(nodes={"office": asking, "said": said}, start="office")))
    dial = ["dial", CODE, "--phone", PHONE, "--menu", str(path)]
    alone = run(*dial)
    assert alone.stdout.startswith("Goodbye\n")
    assert alone.stderr.startswith("The server of `office` was not called; the session goes on as after an error.")
    given = run(*dial, "--answer", 'office={"open": "open"}')
    assert (given.stdout.partition("\n")[0], given.stderr) == ("It is open", "")
    assert "must be NODE=JSON" in run(*dial, "--answer", "office=open").output


def test_a_screen_outside_gsm7_is_measured_in_characters(tmp_path: Path) -> None:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(shop_document(nodes={"bye": {"type": "end", "text": {"en": "Ωŋ日"}}}, start="bye")))
    result = run("dial", CODE, "--phone", PHONE, "--menu", str(path))
    assert "-- 5 of 70 characters, bye, ended" in result.output


def test_without_a_server_or_a_demonstration_the_error_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path))
    result = run("dial", CODE, "--phone", PHONE)
    assert (result.exit_code, f"There is no {tmp_path / 'demo.json'}" in result.output) == (1, True)
    arguments = ["dial", CODE, "--phone", PHONE, "--base-url", "http://127.0.0.1:9", "--channel", "/ussd/at/x"]
    result = run(*arguments)
    assert result.output == "Error: Nothing answers at http://127.0.0.1:9; is the server running?\n"
