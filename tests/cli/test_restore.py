"""The commands of `docs/OPERATIONS.md` that restore a backup, run as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from testbed.postgres import binaries
from tests.support.money import a_client, request
from ussd_server.bootstrap import Services
from ussd_server.settings import Settings

REPOSITORY = Path(__file__).parents[2]
# The test is one user, and its files and its database have other places.
ONE_USER = ((r"runuser -u \w+ -- ", ""), (r"--owner=ussd", "--owner=postgres"), (r"-o ussd -g ussd ", ""))
USSD = """set -eu
ussd() (
    set -a
    . "$SETTINGS"
    "$PYTHON" -m ussd_server.cli "$@"
)
"""


def documented() -> str:
    """The block of commands that makes a database of a dump."""
    text = (REPOSITORY / "docs/OPERATIONS.md").read_text()
    (block,) = re.findall(r"((?:^    .*\n)*^    .*pg_restore .*\n(?:^    .*\n)*)", text, re.MULTILINE)
    return re.sub(r"^    ", "", block, flags=re.MULTILINE)


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_a_backup_is_restored_by_the_documented_commands(
    services: Services, settings: Settings, tmp_path: Path
) -> None:
    services.transactions.create(request(number="+256770000000"), a_client())
    server, name = urlsplit(settings.database_url), f"restored_{uuid.uuid4().hex}"
    backups, etc = tmp_path / "backup", tmp_path / "etc"
    for folder in (backups, etc):
        folder.mkdir(mode=0o700)
    environment = {key: value for key, value in os.environ.items() if not key.startswith("USSD_")} | {
        "PATH": f"{binaries()}{os.pathsep}{os.environ['PATH']}",
        "PGHOST": server.hostname or "",
        "PGPORT": str(server.port),
        "PGUSER": "postgres",
        "PYTHON": sys.executable,
    }
    backup = {"USSD_DATABASE_URL": settings.database_url}
    subprocess.run([REPOSITORY / "deploy/ussd-backup", backups], env=environment | backup, check=True)
    (dump,) = backups.iterdir()
    (etc / "environment").write_text(
        f"USSD_DATA_DIR={settings.data_dir}\n"
        f"USSD_DATABASE_URL={settings.database_url}\n"
        f"USSD_REDIS_URL={settings.redis_url}\n"
        f"USSD_SECRETS_FILE={settings.secrets_file}\n"
    )
    commands = documented()
    for pattern, ours in (
        *ONE_USER,
        (r"/backup/\S+\.dump", str(dump)),
        (r"postgresql:///restored\?host=/run/postgresql", settings.database_url.rpartition("/")[0] + f"/{name}"),
        (r"\brestored\b", name),
        (r"/etc/ussd-server", str(etc)),
        # A sandbox has findings that are none of a restore's.
        (r"(ussd doctor) .*", r"\1 || true"),
    ):
        commands = re.sub(pattern, ours, commands)
    command = ["sh", "-c", USSD + commands]
    ran = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    with psycopg.connect(settings.database_url, autocommit=True) as hand:
        hand.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    assert ran.returncode == 0, ran.stderr
    assert "keys: belong to this database" in ran.stdout
