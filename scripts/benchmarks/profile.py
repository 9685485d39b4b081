"""`profile`: where the web processes spend their time while one target is under load, sampled from outside."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import click

from benchmarks.measure import warm_up
from benchmarks.report import print_table
from benchmarks.stage import PEERS, start_stage
from benchmarks.targets import TARGETS, Target

_SAMPLES_A_SECOND = 200
_ATTACHING_SECONDS = 1.0
_FUNCTIONS_SHOWN = 25
# Below these everything else stands, and their own time is told by owner.
_AROUND = ("Python", "gunicorn", "wsgi")
# "name (path:line)", as py-spy writes a frame.
_FRAME = re.compile(r"(?P<function>.*) \((?P<path>.*?)(?::\d+)?\)")
_PACKAGE = re.compile(r".*/(?:site-packages|scripts)/(?P<package>[^/]+)")
_OURS = re.compile(r".*/(?P<room>ussd_server/[a-z_]+|schemas|wsgi)")


class Frame(NamedTuple):
    """A function on a stack, and whose it is: a package, a room of the service, or the standard library."""

    function: str
    owner: str


@click.command()
@click.argument("name", metavar="TARGET", type=click.Choice([target.name for target in TARGETS]))
@click.option("--seconds", default=8.0, show_default=True)
@click.option("--stacks", "file", type=click.Path(path_type=Path), help="Keep the stacks, as flame graphs take them.")
def profile(name: str, seconds: float, file: Path | None) -> None:
    """Sample the web processes while TARGET is under the highest load, and tell whose the time is.

    Only threads that hold the interpreter are counted: the others wait, or are inside the operating system.
    """
    (target,) = (each for each in TARGETS if each.name == name)
    with start_stage([peer for peer in PEERS if peer == target.program]) as stage:
        warm_up(lambda: stage.servers.run(target.program, target.load(stage, 2.0)), target.warm_up_calls)
        kept = file or stage.servers.folder / "stacks"
        with _sampling(stage.servers.webs[target.program].pid, seconds, kept) as sampler:
            time.sleep(_ATTACHING_SECONDS)
            measured = stage.servers.run(target.program, target.load(stage, seconds + _ATTACHING_SECONDS))
            sampler.wait()
        stacks = read_stacks(kept.read_text())
    _print(target, stacks, measured.cpu_us["web"])


def _sampling(pid: int, seconds: float, file: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [Path(sys.executable).parent / "py-spy", "record", "--pid", str(pid), "--subprocesses", "--gil", "--function",
         "--full-filenames", "--format", "raw", "--rate", str(_SAMPLES_A_SECOND), "--duration", str(round(seconds)),
         "--output", file],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def read_stacks(text: str) -> list[tuple[list[Frame], int]]:
    """Stacks, outermost frame first, each with how often it was seen."""
    stacks = []
    for line in text.splitlines():
        frames, _, count = line.rpartition(" ")
        found = [match for match in map(_FRAME.fullmatch, frames.split(";")) if match]
        stacks.append(([Frame(match["function"], _owner(match["path"])) for match in found], int(count)))
    return stacks


def _owner(path: str) -> str:
    if ours := _OURS.fullmatch(path) or _OURS.match(path):
        return ours["room"]
    if package := _PACKAGE.match(path):
        return package["package"].removesuffix(".py")
    return "Python"


def _print(target: Target, stacks: list[tuple[list[Frame], int]], web_us: float) -> None:
    owners: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for frames, count in stacks:
        # What the standard library does is done for whoever called it.
        owners[next((frame.owner for frame in reversed(frames) if frame.owner != "Python"), "Python")] += count
        inside = (frame for frame in frames if frame.owner not in _AROUND)
        functions.update(dict.fromkeys((f"{frame.owner}: {frame.function}" for frame in inside), count))
    total = sum(owners.values())
    for title, counted in (("Whose the time is", owners), ("Functions with what they call", functions)):
        rows = [
            {"what": what, "share": f"{count / total:.1%}", "us_a_call": round(web_us * count / total)}
            for what, count in counted.most_common(_FUNCTIONS_SHOWN)
        ]
        print_table(f"{title}: {target.name}, {web_us:.0f} us a call in the web processes", rows)
