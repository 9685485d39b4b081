"""`profile`: where the web processes spend their time while a target is under load, sampled from outside."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.measure import warm_up
from benchmarks.report import print_table, write_json
from benchmarks.stage import PEERS, Stage, start_stage
from benchmarks.targets import TARGETS, Target

_SAMPLES_A_SECOND = 200
_ATTACHING_SECONDS = 1.0
_LINES_SHOWN = 12
# Below these everything else stands, and their own time is told by owner.
_AROUND = ("Python", "gunicorn", "wsgi")
# "name (path:line)", as py-spy writes a frame.
_FRAME = re.compile(r"(?P<function>.*) \((?P<path>.*?)(?::\d+)?\)")
_PACKAGE = re.compile(r".*/(?:site-packages|scripts)/(?P<package>[^/]+)")
_OURS = re.compile(r".*/(?P<room>ussd_server/[a-z_]+|schemas|wsgi)")

Stacks = list[tuple[list["Frame"], int]]


class Frame(NamedTuple):
    """A function on a stack, and whose it is: a package, a room of the service, or the standard library."""

    function: str
    owner: str


@click.command()
@click.argument("names", metavar="[TARGET]...", nargs=-1, type=click.Choice([target.name for target in TARGETS]))
@click.option("--seconds", default=8.0, show_default=True)
@click.option("--stacks", "folder", type=click.Path(path_type=Path), help="Keep the stacks, as flame graphs take them.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file as well.")
def profile(names: tuple[str, ...], seconds: float, folder: Path | None, file: Path | None) -> None:
    """Sample the web processes while a TARGET is under the highest load, and tell whose the time is.

    Without a name, every call of the service. Only threads that hold the interpreter are counted: the others wait, or
    are inside the operating system.
    """
    targets = [target for target in TARGETS if (target.name in names if names else target.program == "service")]
    with start_stage([peer for peer in PEERS if any(peer == target.program for target in targets)]) as stage:
        kept = folder or stage.servers.new_folder("stacks")
        kept.mkdir(exist_ok=True)
        found = [_profile(stage, target, seconds, kept / f"{target.name}.txt") for target in targets]
    for each in found:
        for what in ("owners", "functions"):
            print_table(f"{each['target']}: {what}, of {each['web_us']} us a call in the web processes", each[what])
    write_json(file, {"profiles": found})


def read_stacks(text: str) -> Stacks:
    """Stacks, outermost frame first, each with how often it was seen."""
    stacks = []
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        found = [match for match in map(_FRAME.fullmatch, frames.split(";")) if match]
        stacks.append(([Frame(match["function"], _owner(match["path"])) for match in found], int(count)))
    return stacks


def _profile(stage: Stage, target: Target, seconds: float, file: Path) -> dict[str, Any]:
    warm_up(lambda: stage.servers.run(target.program, target.load(stage, 2.0)), target.warm_up_calls)
    with _sampling(stage.servers.webs[target.program].pid, seconds, file) as sampler:
        time.sleep(_ATTACHING_SECONDS)
        measured = stage.servers.run(target.program, target.load(stage, seconds + _ATTACHING_SECONDS))
        if sampler.wait():
            raise click.ClickException("py-spy could not look into the processes; it needs the right to trace them.")
    web_us = round(measured.cpu_us["web"])
    owners, functions = _counted(read_stacks(file.read_text()))
    total = owners.total()
    shown = {
        name: [
            {"what": what, "share": f"{count / total:.1%}", "us_a_call": round(web_us * count / total)}
            for what, count in counted.most_common(_LINES_SHOWN)
        ]
        for name, counted in (("owners", owners), ("functions", functions))
    }
    return {"target": target.name, "web_us": web_us, **shown}


def _sampling(pid: int, seconds: float, file: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [Path(sys.executable).parent / "py-spy", "record", "--pid", str(pid), "--subprocesses", "--gil", "--function",
         "--full-filenames", "--format", "raw", "--rate", str(_SAMPLES_A_SECOND), "--duration", str(round(seconds)),
         "--output", file],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def _owner(path: str) -> str:
    if package := _PACKAGE.match(path):
        return package["package"].removesuffix(".py")
    ours = _OURS.match(path)
    return ours["room"] if ours else "Python"


def _counted(stacks: Stacks) -> tuple[Counter[str], Counter[str]]:
    """How often each owner was at work, and how often each function was on a stack."""
    owners: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for frames, count in stacks:
        # What the standard library does is done for whoever called it.
        owners[next((frame.owner for frame in reversed(frames) if frame.owner != "Python"), "Python")] += count
        inside = (frame for frame in frames if frame.owner not in _AROUND)
        functions.update(dict.fromkeys((f"{frame.owner}: {frame.function}" for frame in inside), count))
    return owners, functions
