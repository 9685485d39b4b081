"""`ussd`: steps through the gateway path beside a bare Flask answer, as menus grow and as sessions grow in number."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import click

from benchmarks.generator import Load, start_generator
from benchmarks.phones import conversations
from benchmarks.report import print_table, spread, write_json
from benchmarks.requests import form_post
from benchmarks.switchboard import CALLERS, USUAL_NODES, Switchboard
from benchmarks.web import BARE, SERVICE, serve
from tests.postgres_server import PostgresServer, create_database
from tests.rpc.redis_server import Server

_NODES = (10, USUAL_NODES, 500)
_LIVE_SESSIONS = (0, 10_000, 100_000)
# More than are answered.
_MOST_PER_SECOND = 4000


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
    with start_generator() as generator, _started() as (bare_port, targets):
        for live in _LIVE_SESSIONS:
            for target in targets:
                target.switchboard.keep_live(live)
            for _ in range(1 + rounds):
                bare = generator.run(_bare_load(bare_port, seconds)).per_second
                for target in targets:
                    for nodes in _NODES if not live else (USUAL_NODES,):
                        steps = generator.run(_dialling(target, nodes, seconds)).per_second
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
        bare_port = stack.enter_context(serve(BARE, folders["bare"], {})).port
        targets = []
        for number, (name, url) in enumerate(
            {"sqlite": f"sqlite:///{folders['sqlite']}/ussd.db", "postgresql": create_database(postgres.url)}.items()
        ):
            settings = {"USSD_DATABASE_URL": url, "USSD_REDIS_URL": f"{redis.url}?db={number}"}
            switchboard = Switchboard(folders[name], settings, _NODES)
            port = stack.enter_context(serve(SERVICE, folders[name], settings)).port
            targets.append(_Target(name, port, switchboard))
        yield bare_port, targets


def _bare_load(port: int, seconds: float) -> Load:
    call = form_post("/", "sessionId=1&phoneNumber=%2B256770000000&networkCode=64110&text=")
    return Load(port, [[call]], seconds, CALLERS, repeats=True)


def _dialling(target: _Target, nodes: int, seconds: float) -> Load:
    board = target.switchboard
    scripts = conversations(board.paths, board.code_of(nodes), CALLERS, int(seconds * _MOST_PER_SECOND))
    return Load(target.port, scripts, seconds, CALLERS)
