"""What stands in `deploy/` speaks of what the service has."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from ussd_server.menus.gsm7 import measure

REPOSITORY = Path(__file__).parents[1]
DEPLOY = REPOSITORY / "deploy"
MEASURED_IN = ("services/gauges.py", "services/pulse.py", "rpc/observe.py")
ENDINGS = ("", "_total", "_bucket")


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


def test_both_units_run_as_a_user_without_rights_and_with_the_same_hardening() -> None:
    web, worker = ((DEPLOY / f"ussd-server-{name}.service").read_text() for name in ("web", "worker"))
    hardening = web[web.index("UMask=") :]
    assert hardening == worker[worker.index("UMask=") :]
    for line in ("NoNewPrivileges=yes", "ProtectSystem=strict", "CapabilityBoundingSet=", "StateDirectoryMode=0700"):
        assert f"{line}\n" in hardening
    assert "User=ussd\n" in web
    assert "User=ussd\n" in worker


def test_nginx_closes_idle_connections_before_gunicorn_does() -> None:
    ours = re.search(r"keepalive_timeout (\d+)s;\n}", (DEPLOY / "nginx.conf").read_text())
    theirs = re.search(
        r"^keepalive = (\d+)$", (REPOSITORY / "ussd_server" / "gunicorn_settings.py").read_text(), re.MULTILINE
    )
    assert ours
    assert theirs
    assert int(ours[1]) < int(theirs[1])


def test_the_last_screen_of_nginx_fits_on_every_phone() -> None:
    shown = re.search(r'ussd_last_screen {\n    default "(.+)";', (DEPLOY / "nginx.conf").read_text())
    assert shown
    size = measure(f"END {shown[1]}")
    assert size.encoding == "gsm7"
    assert size.units <= 160
