"""The container image, without an engine: each of its commands in a tree that nothing writes to."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from testbed.ports import free_port
from testbed.postgres import create_database, drop_database
from tests.support.eventually import eventually
from tests.support.real_service.installation import copy_into

_REPOSITORY = Path(__file__).parents[2]
_MANIFESTS = sorted((_REPOSITORY / "deploy" / "kubernetes").glob("*.yaml"))
_TOOLS = Path(sys.executable).parent
# Of ussd_server/server/gunicorn_settings.py, which reads the settings of an installation when it is imported.
GRACEFUL_TIMEOUT = 30


def instructions(name: str) -> list[str]:
    """The arguments of the Dockerfile's instructions of a name, its continued lines joined."""
    text = (_REPOSITORY / "Dockerfile").read_text().replace("\\\n", " ")
    return [line.partition(" ")[2] for line in text.splitlines() if line.startswith(f"{name} ")]


def composed() -> dict[str, Any]:
    return dict(yaml.safe_load((_REPOSITORY / "compose.yaml").read_text())["services"])


def containers() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each container of the manifests, with its pod."""
    for path in _MANIFESTS:
        for document in yaml.safe_load_all(path.read_text()):
            spec = document["spec"]
            if document["kind"] == "CronJob":
                spec = spec["jobTemplate"]["spec"]
            pod = spec.get("template", {}).get("spec", {"containers": []})
            for container in pod["containers"]:
                yield container, pod


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, installation: Path) -> Iterator[Path]:
    """The programs of the image, in a read-only tree."""
    folder = tmp_path_factory.mktemp("image")
    python = copy_into(folder, installation)
    shutil.copy(_REPOSITORY / "deploy" / "container-start", python.with_name("container-start"))
    # The libraries are those of the tests, and so are their own programs.
    gunicorn = python.with_name("gunicorn")
    gunicorn.write_text(f"#!{python}\nfrom gunicorn.app.wsgiapp import run\nrun()\n")
    gunicorn.chmod(0o755)
    subprocess.run(["chmod", "-R", "a-w", folder], check=True)
    yield python.parent
    subprocess.run(["chmod", "-R", "u+w", folder], check=True)


@pytest.fixture(scope="module")
def settings(
    tmp_path_factory: pytest.TempPathFactory, image: Path, postgres_url: str, redis_url: str
) -> Iterator[Path]:
    """A mounted folder of settings: the secrets are made by the command that the documents name."""
    database_url = create_database(postgres_url)
    folder = tmp_path_factory.mktemp("mounted")
    file = folder / "environment"
    file.write_text(
        f"USSD_DATABASE_URL={database_url}\nUSSD_REDIS_URL={redis_url}\nUSSD_SECRETS_FILE={folder / 'secrets.json'}\n"
    )
    run(image, file, ["ussd-server", "secrets", "create", str(folder / "secrets.json")])
    yield file
    drop_database(postgres_url, database_url)


def run(image: Path, settings: Path, command: Sequence[str]) -> None:
    """Run a command of the image to its end."""
    with started(image, settings, command) as process:
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output


@contextmanager
def started(image: Path, settings: Path, command: Sequence[str], **more: str) -> Iterator[subprocess.Popen[str]]:
    """A command of the image, by a user who has no more rights than files give."""
    environment = {
        "PATH": f"{image}:/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        "USSD_ENV": "production",
        "USSD_DATA_DIR": str(settings.parent),
        "SETTINGS": str(settings),
    }
    rights = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"] if os.getuid() == 0 else []
    process = subprocess.Popen(
        [*rights, str(image / "container-start"), *command],
        env=environment | more,
        cwd=settings.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=45)


def status_of(address: str) -> int:
    try:
        with urllib.request.urlopen(address, timeout=5) as reply:
            return int(reply.status)
    except OSError:
        return 0


def ends_in_order(process: subprocess.Popen[str]) -> bool:
    """Whether the process handles SIGTERM yet."""
    (caught,) = re.findall(r"^SigCgt:\s*(\w+)$", Path(f"/proc/{process.pid}/status").read_text(), re.MULTILINE)
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.nightly
def test_each_command_of_the_image_works_in_a_read_only_tree(image: Path, settings: Path) -> None:
    services, port = composed(), free_port()
    before = {path: path.stat().st_mtime_ns for path in image.parent.rglob("*")}
    run(image, settings, services["migrate"]["command"])
    (web,) = map(json.loads, instructions("CMD"))
    with (
        started(image, settings, web, USSD_BIND=f"127.0.0.1:{port}"),
        started(image, settings, services["worker"]["command"]) as worker,
        started(image, settings, services["smpp"]["command"]) as smpp,
    ):
        eventually(lambda: status_of(f"http://127.0.0.1:{port}/health/ready") == 200)
        _, *program, check = services["web"]["healthcheck"]["test"]
        run(image, settings, [*program, check.replace(":8000", f":{port}")])
        for each in (worker, smpp):
            eventually(lambda each=each: ends_in_order(each))
            assert each.poll() is None
    assert (worker.returncode, smpp.returncode) == (0, 0)
    assert {path: path.stat().st_mtime_ns for path in image.parent.rglob("*")} == before


def test_the_image_runs_as_a_user_without_rights() -> None:
    assert instructions("USER") == ["10001:10001"]
    assert instructions("ENTRYPOINT") == ['["container-start"]']
    for line in (_REPOSITORY / ".dockerignore").read_text().splitlines():
        assert not line.startswith("!") or (_REPOSITORY / line[1:]).exists(), line


def test_the_linters_of_images_and_manifests_find_nothing() -> None:
    lints = [["hadolint", "Dockerfile"], ["kubernetes-validate", "--strict", "-k", "1.31", *map(str, _MANIFESTS)]]
    for program, *arguments in lints:
        found = subprocess.run(
            [_TOOLS / program, *arguments], cwd=_REPOSITORY, capture_output=True, text=True, check=False
        )
        assert found.returncode == 0, found.stdout + found.stderr


def test_every_container_of_ours_is_unprivileged_and_writes_to_volumes_only() -> None:
    for name in ("migrate", "web", "worker", "nginx"):
        service = composed()[name]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"]), name
        assert service["user"].split(":")[0] not in ("0", "root"), name
    for container, pod in containers():
        rights = pod["securityContext"] | container["securityContext"]
        assert rights["runAsNonRoot"], container["name"]
        assert rights["runAsUser"] > 0, container["name"]
        assert rights["readOnlyRootFilesystem"], container["name"]
        assert not rights["allowPrivilegeEscalation"], container["name"]
        assert rights["capabilities"] == {"drop": ["ALL"]}, container["name"]
        assert {mount["name"] for mount in container["volumeMounts"]} <= {each["name"] for each in pod["volumes"]}


def test_a_stop_waits_for_the_requests_under_way() -> None:
    pauses = [
        (pod["terminationGracePeriodSeconds"], int(container["lifecycle"]["preStop"]["exec"]["command"][1]))
        for container, pod in containers()
        if "lifecycle" in container
    ]
    assert len(pauses) == 2
    assert all(grace - pause > GRACEFUL_TIMEOUT for grace, pause in pauses)
    for name in ("web", "worker", "nginx"):
        assert int(composed()[name]["stop_grace_period"].removesuffix("s")) > GRACEFUL_TIMEOUT
