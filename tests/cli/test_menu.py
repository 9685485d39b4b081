"""`menu`, `codes` and `channels`: what the operator types and reads."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.cli.conftest import output_of, run
from tests.support.shop import shop_document
from ussd_server.menus.source.texts import read_menu_file

EXAMPLES = Path(__file__).parents[2] / "ussd_server" / "menus" / "examples"


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path / "var"))
    return tmp_path / "var"


@pytest.fixture
def menu_file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(shop_document()))
    return path


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_may_be_published_and_its_fullest_screen_is_drawn(path: Path) -> None:
    result = run("menu", "check", path)
    assert (result.exit_code, "0 errors" in result.output) == (0, True)
    assert "every screen fits" in result.output
    assert "of 160 septets" in result.output
    assert run("menu", "script", path).exit_code == 0


def test_a_menu_is_drawn_from_its_file() -> None:
    path = EXAMPLES / "shop_bill.yaml"
    assert run("menu", "graph", path).output.startswith('<svg xmlns="http://www.w3.org/2000/svg"')
    assert output_of("menu", "graph", path)["start"] == "root"


def test_the_worst_screen_is_drawn_as_a_phone_would_show_it(tmp_path: Path) -> None:
    path = tmp_path / "long.yaml"
    path.write_text(json.dumps(shop_document(nodes={"bye": {"type": "end", "text": {"en": "Good " + "bye " * 50}}})))
    result = run("menu", "check", path)
    assert result.exit_code == 1
    assert "The worst screen" in result.output
    assert "┃ Good bye bye" in result.output
    assert "205 of 160 septets" in result.output
    report = json.loads(run("menu", "check", path, "--json").stdout)
    assert (report["passes"], report["errors"][0]["node"], report["errors"][0]["excess"]) == (False, "bye", 45)


def test_findings_are_wrapped_and_never_cut_on_a_narrow_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    path, name = tmp_path / "menu.json", "nowhere_" * 8
    path.write_text(json.dumps(shop_document(start=name)))
    lines = run("menu", "check", path).output.splitlines()
    assert max(map(len, lines)) <= 40
    assert name in "".join(line.removeprefix("error").strip() for line in lines)


def test_a_script_that_comes_out_differently_fails(tmp_path: Path) -> None:
    dial = {"phone": "+256772123456", "code": "*1#"}
    scripts = [
        {"name": "good", "dial": dial, "steps": [{"expect": "Welcome"}]},
        {"name": "bad", "dial": dial, "steps": [{"expect": "Farewell"}]},
    ]
    path = tmp_path / "shop.json"
    path.write_text(json.dumps(shop_document(scripts=scripts)))
    result = run("menu", "script", path)
    assert result.exit_code == 1
    assert "passed  good\nfailed  bad" in result.output


@pytest.mark.parametrize("text", ["{", "[]", "\x00"])
def test_a_file_without_a_menu_is_refused_in_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "menu.yaml"
    path.write_text(text)
    for command in ("check", "script"):
        result = run("menu", command, path)
        assert (result.exit_code, result.output.count("\n")) == (1, 1)


def test_a_client_is_given_a_code_a_menu_and_a_channel(data_dir: Path, menu_file: Path) -> None:
    assert run("migrate").exit_code == 0
    client = output_of("clients", "create", "ACME")
    version = output_of("menu", "publish", menu_file, "--client", "ACME", "--code", "*384*123#")
    assert (version["menu_id"], version["version"], version["in_force"]) == ("shop", 1, True)
    assert output_of("codes", "list", "--client", "ACME")["items"][0]["menu_id"] == "shop"
    assert output_of("codes", "assign", "*165#", "--client", client["client_id"], "--menu", "shop")["menu_id"] == "shop"
    channel = output_of("channels", "create", "--client", "ACME", "--adapter", "africastalking", "--code", "*165#")
    assert channel["gateway_path"].startswith("/ussd/africastalking/")
    assert run("channels", "list").output.count(channel["gateway_path"]) == 1
    assert output_of("channels", "disable", channel["channel_id"])["is_active"] is False
    assert output_of("channels", "enable", channel["channel_id"])["is_active"] is True
    (listed,) = output_of("menu", "list")["items"]
    assert (listed["client"], listed["menu_id"], listed["published_version"]) == ("ACME", "shop", 1)
    assert "ACME  shop  version 1  *165#, *384*123#  ACME" in run("menu", "list", "--client", "ACME").output
    shown = run("menu", "show", "shop", "--client", "ACME").output
    copied = menu_file.with_suffix(".yaml")
    copied.write_text(shown)
    assert (
        read_menu_file(copied)[0]
        == read_menu_file(menu_file)[0]
        == output_of("menu", "show", "shop", "--client", "ACME", "--draft")["draft"]
    )
    secret = output_of("menu", "secret", "--client", "ACME")["secret"]
    assert len(base64.b64decode(secret.removeprefix("whsec_"))) == 32


def test_an_earlier_version_of_a_menu_is_put_in_force_again(data_dir: Path, menu_file: Path) -> None:
    run("migrate")
    output_of("clients", "create", "ACME")
    rollback = ("menu", "rollback", "shop", "--client", "ACME", "--reason", "It asks twice")
    assert "There is no menu shop. There is no menu yet." in run(*rollback).output
    for title in ("One", "Two", "Three"):
        menu_file.write_text(json.dumps(shop_document(title=title)))
        output_of("menu", "publish", menu_file, "--client", "ACME")
    assert [output_of(*rollback)["version"] for _ in range(2)] == [2, 1]
    assert "shop has no version before the one in force." in run(*rollback).output
    assert output_of(*rollback, "--version", "3")["in_force"] is True
    assert "Menu version not found" in run(*rollback, "--version", "4").output


def test_a_command_that_fails_prints_one_sentence(data_dir: Path, menu_file: Path, tmp_path: Path) -> None:
    run("migrate")
    output_of("clients", "create", "ACME")
    output_of("clients", "create", "Rival")
    output_of("codes", "assign", "*165#", "--client", "Rival")
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps(shop_document(start="nowhere")))
    for arguments, sentence in {
        ("codes", "assign", "*165#", "--client", "ACME"): "service_code: Belongs to another client.",
        ("codes", "assign", "165", "--client", "ACME"): "service_code: Must be a code such as *384*123#.",
        ("channels", "disable", "x"): "Channel not found",
        ("menu", "publish", broken, "--client", "ACME"): "nowhere",
        ("menu", "publish", menu_file, "--client", "Nobody"): "There is no client Nobody.",
        ("menu", "show", "never-saved", "--client", "ACME"): "There is no menu never-saved.",
    }.items():
        result = run(*arguments)
        assert (result.exit_code, sentence in result.output) == (1, True), result.output
        assert "Traceback" not in result.output
