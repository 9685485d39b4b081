"""`ussd`: steps through the gateway path beside a bare Flask answer, as menus grow and as sessions grow in number."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click

from benchmarks.callers import Post, Visit, call_for, form_post
from benchmarks.report import print_table, spread, write_json
from benchmarks.switchboard import CALLERS, Switchboard
from benchmarks.web import BARE, SERVICE, serve
from tests.postgres_server import PostgresServer, create_database
from tests.rpc.redis_server import Server

_NODES = (10, 100, 500)
_USUAL_NODES = 100
_LIVE_SESSIONS = (0, 10_000, 100_000)
_CHOICES_OF_A_CALL = 3


class _Target(NamedTuple):
    database: str
    port: int
    switchboard: Switchboard


@click.command()
@click.option("--rounds", default=3, show_default=True, type=click.IntRange(min=1))
@click.option("--seconds", default=1.5, show_default=True, help="How long each run takes.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file as well.")
def ussd(rounds: int, seconds: float, file: Path | None) -> None:
    """Steps a second of whole conversations, their state committed, and a bare Flask answer, in turn."""
    seen: dict[tuple[str, int, int], list[tuple[float, float]]] = defaultdict(list)
    with _started() as (bare_port, targets):
        for live in _LIVE_SESSIONS:
            for target in targets:
                target.switchboard.keep_live(live)
            for _ in range(1 + rounds):
                bare = call_for(seconds, bare_port, [_one_call()] * CALLERS)
                for target in targets:
                    for nodes in _NODES if not live else (_USUAL_NODES,):
                        steps = call_for(seconds, target.port, _visits(target.switchboard, nodes))
                        seen[target.database, nodes, live].append((bare, steps))
    rows = [
        {
            "database": database, "nodes": nodes, "live_sessions": live,
            "bare_per_second": spread(bare for bare, _ in pairs),
            "steps_per_second": spread(steps for _, steps in pairs),
            "ratio": spread(steps / bare for bare, steps in pairs),
        }
        # The first round of each warms up what is measured afterwards.
        for (database, nodes, live), (_, *pairs) in seen.items()
    ]  # fmt: skip
    title = f"USSD steps, {CALLERS} callers, {rounds} rounds of {seconds} s each: median (least to greatest)"
    print_table(title, rows)
    write_json(file, {"callers": CALLERS, "rounds": rounds, "seconds": seconds, "runs": rows})


@contextmanager
def _started() -> Iterator[tuple[int, list[_Target]]]:
    """The bare answer and the service on both databases; gives their ports."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True)))
        folders = {name: folder / name for name in ("bare", "sqlite", "postgresql", "redis", "server")}
        for each in folders.values():
            each.mkdir()
        redis = Server(folders["redis"])
        stack.callback(redis.stop)
        postgres = PostgresServer(folders["server"], is_durable=True)
        stack.callback(postgres.stop)
        bare_port = stack.enter_context(serve(BARE, folders["bare"], {}))
        targets = []
        for number, (name, url) in enumerate(
            {"sqlite": f"sqlite:///{folders['sqlite']}/ussd.db", "postgresql": create_database(postgres.url)}.items()
        ):
            settings = {"USSD_DATABASE_URL": url, "USSD_REDIS_URL": f"{redis.url}?db={number}"}
            switchboard = Switchboard(folders[name], settings, _NODES)
            port = stack.enter_context(serve(SERVICE, folders[name], settings))
            targets.append(_Target(name, port, switchboard))
        yield bare_port, targets


def _one_call() -> Visit:
    return lambda: [form_post("/", "sessionId=1&phoneNumber=%2B256770000000&networkCode=64110&text=")]


def _visits(switchboard: Switchboard, nodes: int) -> list[Visit]:
    return [_conversation(path, switchboard.code_of(nodes), number) for number, path in enumerate(switchboard.paths)]


def _conversation(path: str, code: str, number: int) -> Visit:
    """A phone that dials, makes a few choices at random, and ends; every time under a new name and another number."""
    names = itertools.count(random.randrange(10**9) * 1000)

    def visit() -> Iterator[Post]:
        name = next(names)
        text = ""
        for step in range(_CHOICES_OF_A_CALL + 2):
            is_last = step > _CHOICES_OF_A_CALL
            if step:
                text = f"{text}*{9 if is_last else random.randint(1, 8)}".lstrip("*")
            form = (
                f"sessionId=ATUid_{number}_{name}&phoneNumber=%2B2567{name % 10**8:08}&networkCode=64110"
                f"&serviceCode={code.replace('*', '%2A').replace('#', '%23')}&text={text.replace('*', '%2A')}"
            )
            yield form_post(path, form, b"END Thank you" if is_last else b"CON Place")

    return visit
