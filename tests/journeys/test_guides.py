"""docs/guides: the programs of every page run, in each language, and print what the page says; so does the README."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from standardwebhooks import Webhook

from tests.outbound.certificates import Authority
from tests.support.commands import run_command
from tests.support.real_service.service import Service
from tests.support.stand_ins import StandInProcess

_FOLDER = Path(__file__).parents[2] / "docs/guides"
_README = Path(__file__).parents[2] / "README.md"
_PAGES = sorted(page for page in _FOLDER.glob("[a-z]*.md") if "```python" in page.read_text())
_PATIENCE_SECONDS = 120
_COMMANDS = {
    "sh": ("bash", "-euo", "pipefail"),
    "python": (sys.executable,),
    "javascript": ("node",),
    "php": ("php",),
}
_CLIENTS = Path(__file__).parents[2] / "clients"
_PIP = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
_INSTALLS = {
    "python": [*_PIP, "--target"],
    "javascript": ["npm", "install", "--silent", "--no-audit", "--no-fund", "--offline", "--prefix"],
}
# Parts of a document and settings.
_NO_COMMAND = re.compile(r"\w+:( |$)|USSD_\w+=")
# They run until they are stopped.
_SERVERS = ("python -m simulators.", "ussd-server smpp")
_SERVER_SECONDS = 5
# A command of ours that needs neither a shell nor a file starts at once.
_OF_OURS_ALONE = re.compile(r"ussd(?:-server)? (?:(?!--password-stdin)[^|;&<>$\n])+")
# Exit status 1 says that something is to be mended: here, an operator that does not exist.
_FINDS_FAULTS = "ussd doctor"
_RUN_ELSEWHERE = {
    "pip install": "the fixture libraries",
    "npm install": "the fixture libraries",
    "systemctl": "tests/journeys/test_deployment.py",
    "ussd-server run": "the fixture service",
    "mtn-1": "the service of the page about MTN",
    "providers try": "tests/providers",
    "clients connection": "the service of the page about MTN",
    "movements same": "the service with examples, which have a collection without a receipt",
}
_ENDINGS = {"sh": "sh", "python": "py", "javascript": "mjs", "php": "php"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("guides") / "var", USSD_WORKERS="1")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the client libraries are installed as the guides say."""
    folder = tmp_path_factory.mktemp("libraries")
    for language, command in _INSTALLS.items():
        # Building in place would leave files in the checkout.
        sources = shutil.copytree(_CLIENTS / language, folder / "sources" / language)
        subprocess.run([*command, folder, sources], check=True, cwd=folder, timeout=_PATIENCE_SECONDS)
    (shared,) = blocks(_FOLDER / "README.md", "php")
    (folder / "call.php").write_text(shared)
    return folder


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)


def exported(service: Service) -> dict[str, str]:
    """Return the environment that the page about all guides makes from the demonstration."""
    (prepare,) = blocks(_FOLDER / "README.md", "sh")
    ran = subprocess.run(
        ["bash", "-euc", prepare + "env -0"],
        cwd=service.folder.parent,
        env={"PATH": os.environ["PATH"], "USSD_DATA_DIR": str(service.folder)},
        capture_output=True,
        text=True,
        check=True,
        timeout=_PATIENCE_SECONDS,
    )
    return dict(line.split("=", 1) for line in ran.stdout.split("\0") if line)


def test_the_first_call_of_the_readme_is_answered_as_it_says(service: Service) -> None:
    (call,), (answer,) = blocks(_README, "sh"), blocks(_README, "json")
    ran = subprocess.run(
        ["bash", "-euc", call],
        cwd=service.folder.parent,
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
        check=True,
        timeout=_PATIENCE_SECONDS,
    )
    reply, shown = json.loads(ran.stdout), json.loads(answer)
    same = shown["data"].keys() - {"transaction_id", "completed_at"}
    assert reply["message"] == shown["message"]
    assert {name: reply["data"][name] for name in same} == {name: shown["data"][name] for name in same}


def typed_lines(page: Path) -> list[str]:
    """What a page has to type outside its fenced blocks; a line that ends in a backslash goes on."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^ {4,}(\S(?:.*\\\n)*.*)$", text, re.MULTILINE)


Terminal = Callable[[str], subprocess.CompletedProcess[str]]


@pytest.fixture
def at_a_terminal(service: Service, tmp_path: Path) -> Terminal:
    return terminal(service, tmp_path)


def terminal(service: Service, tmp_path: Path) -> Terminal:
    """Runs what is typed in a folder of its own, with the variables of the page about all guides and its PATH."""
    programs = tmp_path / "bin"
    programs.mkdir()
    # What INSTALL.md makes of it in production.
    (programs / "ussd").symlink_to(Path(sys.executable).parent / "ussd-server")
    (tmp_path / "operator.pem").write_text(Authority().pem)
    environment = exported(service) | {"USSD_DATA_DIR": str(service.folder), "PYTHONPATH": str(_CLIENTS.parent)}
    environment |= {name: value for name, value in service.settings.items() if name.startswith("USSD_")}
    environment["PATH"] = f"{programs}:{Path(sys.executable).parent}:{environment['PATH']}"

    def run(typed: str) -> subprocess.CompletedProcess[str]:
        if "$ID" in typed:
            held = json.loads(run("ussd-server movements list --held --json").stdout)
            *_, last = (each["movement_id"] for each in held["items"] if each["state"] == "held")
            typed = typed.replace("$ID", last)
        is_server = typed.startswith(_SERVERS)
        if _OF_OURS_ALONE.fullmatch(typed) and not is_server:
            ran = run_command(*shlex.split(typed)[1:], env=environment)
        else:
            ran = at_the_shell(typed, is_server)
        assert "Traceback" not in ran.stderr, typed + ran.stderr
        good = (0, 124, 130) if is_server else (0, 1) if typed == _FINDS_FAULTS else (0,)
        assert ran.returncode in good, typed + ran.stdout + ran.stderr
        return ran

    def at_the_shell(typed: str, is_server: bool) -> subprocess.CompletedProcess[str]:
        limit = f"timeout {_SERVER_SECONDS} " if is_server else ""
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", limit + typed],
            cwd=tmp_path,
            env=environment,
            input="a password\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_SECONDS * 4,
        )

    return run


def test_the_commands_of_pages_without_programs_run_as_they_are_written(
    at_a_terminal: Terminal,
) -> None:
    for name in ("take-money-at-a-till", "give-your-service-a-pin"):
        for commands in blocks(_FOLDER / f"{name}.md", "sh"):
            at_a_terminal(commands)


def test_every_line_to_type_in_a_guide_runs_as_it_is_written(
    at_a_terminal: Terminal,
) -> None:
    at_a_terminal("ussd-server clients create acme")
    at_a_terminal("ussd-server codes assign '*384*123#' --client acme")
    at_a_terminal(blocks(_FOLDER / "take-money-at-a-till.md", "sh")[0])
    ran = []
    for page in sorted(_FOLDER.glob("*.md")):
        for typed in typed_lines(page):
            if not (_NO_COMMAND.match(typed) or any(each in typed for each in _RUN_ELSEWHERE)):
                at_a_terminal(typed)
                ran.append(typed)
    assert len(ran) >= 12


def test_the_lines_of_the_page_about_mtn_run_beside_its_stand_in(tmp_path: Path) -> None:
    page, stand_in = _FOLDER / "mtn.md", StandInProcess("mtn")
    (recipe,) = blocks(page, "sh")
    folder = tmp_path / "mtn-try"
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"{recipe}\nenv -0"],
        cwd=tmp_path,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "MTN": stand_in.base_url},
        capture_output=True,
        text=True,
        check=True,
        timeout=_PATIENCE_SECONDS,
    )
    settings = dict(each.split("=", 1) for each in ran.stdout.split("\0") if each.startswith("USSD_MTN_"))
    settings |= {name.replace("USSD_MTN_", "USSD_MTN_ACME_"): value for name, value in settings.items()}
    service = Service(
        folder, USSD_PROVIDERS="mtn,mtn-acme", USSD_MTN_ACME_KIND="mtn", USSD_MTN_ACME_ACCOUNT="mtn", **settings
    )
    try:
        type_in = terminal(service, tmp_path)
        type_in("ussd-server clients create acme")
        for typed in (line for line in typed_lines(page) if "mtn-1" in line or "clients connection" in line):
            printed = type_in(typed).stdout
            assert '"status":"succeeded"' in printed or "mtn-acme, which serves nobody else" in printed, printed
    finally:
        service.stop()
        stand_in.stop()


def test_the_line_about_money_that_a_collection_without_a_receipt_has_runs(tmp_path: Path) -> None:
    service = Service(tmp_path / "var", with_examples=True)
    try:
        type_in = terminal(service, tmp_path)
        (review,) = (
            each["transaction"]
            for each in json.loads(type_in("ussd-server transactions review --json").stdout)["items"]
            if each["transaction"]["status"] == "ambiguous"
        )
        agreed = "--reason 'The payer shows it' --by ann --and ben"
        type_in(
            f"ussd-server transactions review --settle {review['transaction_id']} --as succeeded --no-receipt {agreed}"
        )
        secrets_of = type_in("ussd-server callbacks --show-secrets --json").stdout
        incoming = dict(re.findall(r'"incoming_(path|secret)": "(.*?)"', secrets_of))
        paid = f"--code TEA1 --amount {review['amount']} --phone {review['phone_number']}"
        where = f"http://127.0.0.1:{service.port}{incoming['path']} --secret {incoming['secret']}"
        type_in(f"python -m simulators.till {where} {paid} --only right")
        (typed,) = (line for line in typed_lines(_FOLDER / "take-money-at-a-till.md") if "movements same" in line)
        held = json.loads(type_in("ussd-server movements list --held --json").stdout)["items"]
        (like_it,) = (each for each in held if review["transaction_id"] in json.dumps(each["beside"]))
        type_in(typed.replace("$ID", like_it["movement_id"]))
    finally:
        service.stop()


@pytest.mark.needs_node
@pytest.mark.needs_php
@pytest.mark.parametrize("language", _COMMANDS)
def test_every_program_prints_what_its_page_says(service: Service, libraries: Path, language: str) -> None:
    assert len(_PAGES) >= 9
    at = datetime.now(UTC)
    secret, body = "whsec_" + "c2VjcmV0" * 4, '{"type":"webhook.test"}'
    environment = {
        **exported(service),
        "HOME": str(libraries),
        "PYTHONPATH": str(libraries),
        "RUN": secrets.token_hex(4),
        "WEBHOOK_SECRET": secret,
        "WEBHOOK_ID": "msg_1",
        "WEBHOOK_TIMESTAMP": str(int(at.timestamp())),
        "WEBHOOK_BODY": body,
        "WEBHOOK_SIGNATURE": "v1,bm9uZQ== " + Webhook(secret).sign("msg_1", at, body),
    }
    for page in _PAGES:
        program = libraries / f"{page.stem}.{_ENDINGS[language]}"
        code = "\n".join(blocks(page, language))
        assert code, f"{page.name} has no {language}"
        program.write_text(code)
        ran = subprocess.run(
            [*_COMMANDS[language], program],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_SECONDS,
        )
        assert ran.returncode == 0, f"{page.name}: {ran.stdout}{ran.stderr}"
        (printed,) = blocks(page, "text")
        assert printed.removesuffix("\n") in ran.stdout, f"{page.name}: {ran.stdout}{ran.stderr}"


@pytest.mark.needs_node
@pytest.mark.needs_php
@pytest.mark.parametrize("language", _COMMANDS)
def test_the_program_that_collects_ends_well_when_the_payer_declines(
    service: Service, libraries: Path, language: str
) -> None:
    code = "\n".join(blocks(_FOLDER / "collect-a-payment.md", language))
    code = code.replace("+256770000000", "+256770000002").replace("order-1001", f"declined-{language}")
    program = libraries / f"declined.{_ENDINGS[language]}"
    program.write_text(code)
    ran = subprocess.run(
        [*_COMMANDS[language], program],
        env={**exported(service), "HOME": str(libraries), "PYTHONPATH": str(libraries)},
        capture_output=True,
        text=True,
        check=False,
        timeout=_PATIENCE_SECONDS,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "failed" in ran.stdout
