"""`growth`: what the door costs with a thousand and with a million keys, and what web processes bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import psycopg

from benchmarks.generator import Load
from benchmarks.house import opened_house
from benchmarks.measure import measure_in_turn, rates_of, ratios, row_of, server_us, warm_up
from benchmarks.report import print_table, spread, write_json
from benchmarks.requests import Pair, call_with
from benchmarks.servers import Measured, Servers, start_servers
from benchmarks.stage import program_name, service_settings, start_stage
from benchmarks.targets import CALLS_UNTIL_KNOWN, TARGETS
from benchmarks.tenants import add_clients, add_keys
from benchmarks.web import BARE, SERVICE

_WORKERS = (1, 2, 4)
_TARGETS_OF_WORKERS = ("bare GET", "door", "balance", "bare POST", "disbursement", "ussd step")
_SIZES = (1_000, 100_000, 1_000_000)
_CALLERS = 1_000
_PARTS = 10
# More than are answered in that time.
_STRANGERS_A_RUN, _STRANGERS_SECONDS = 4_000, 1.0
_KEYS_OF_A_CLIENT = 50

# Keys of other clients, which nobody calls with: they make the table and its indexes as large as they would be.
_OTHER_CLIENTS = """
    INSERT INTO clients (id, name, is_active, created_at, updated_at)
    SELECT gen_random_uuid(), 'other ' || gen_random_uuid(), true, now(), now() FROM generate_series(1, %s)"""
_OTHER_KEYS = """
    INSERT INTO api_keys (id, client_id, apikey, secret_sealed, secret_digest, digest_key_id, is_active, created_at,
        updated_at)
    SELECT gen_random_uuid(), id, 'uk' || substr(md5(random()::text), 1, 20),
        decode(repeat(md5(random()::text), 6), 'hex'), decode(repeat(md5(random()::text), 2), 'hex'), 'other',
        true, created_at, created_at
    FROM (SELECT id, created_at FROM clients WHERE name LIKE 'other %%' ORDER BY created_at DESC LIMIT %s) AS newest,
        generate_series(1, %s)"""


@click.command()
@click.option("--rounds", default=4, show_default=True, type=click.IntRange(min=1))
@click.option("--seconds", default=1.5, show_default=True, help="How long each run takes.")
@click.option("--json", "file", type=click.Path(path_type=Path), help="Write the figures to this file as well.")
def growth(rounds: int, seconds: float, file: Path | None) -> None:
    """Measure the door as keys grow in number, and several calls as web processes do."""
    with start_servers() as servers:
        by_keys = _measure_keys(servers, rounds, seconds)
    print_table(f"The door as keys grow, {rounds} rounds of {seconds} s: median (least to greatest)", by_keys)
    by_workers = _measure_workers(rounds, seconds)
    print_table(f"Web processes, {rounds} rounds of {seconds} s: median (least to greatest)", by_workers)
    write_json(file, {"rounds": rounds, "seconds": seconds, "keys": by_keys, "workers": by_workers})


def _measure_workers(rounds: int, seconds: float) -> list[dict[str, Any]]:
    rows = []
    with start_stage((), _WORKERS) as stage:
        for workers in _WORKERS:
            targets = [
                replace(target, program=program_name(target.program, workers))
                for target in TARGETS
                if target.name in _TARGETS_OF_WORKERS
            ]
            seen = measure_in_turn(stage, targets, rounds, seconds)
            rows += [{"web_processes": workers} | row_of(target, seen) for target in targets]
    return rows


def _measure_keys(servers: Servers, rounds: int, seconds: float) -> list[dict[str, Any]]:
    """The door with few and many keys in turn, and at last by keys that no process has seen before."""
    servers.start("bare", BARE, servers.new_folder("bare"), {})
    callers, strangers = {}, []
    for number, size in enumerate(_SIZES):
        name, home = f"{size} keys", servers.new_folder(f"{size}")
        settings = service_settings(servers.new_database(), servers.redis_url(number))
        is_largest = size == max(_SIZES)
        callers[name], strangers = _fill(home, settings, size, rounds * _STRANGERS_A_RUN if is_largest else 0)
        servers.start(name, SERVICE, home, settings)
    seen: dict[str, list[Measured]] = {name: [] for name in ("bare", *callers, "first calls")}
    run = partial(_run, servers, seconds)
    for name, pairs in callers.items():
        warm_up(partial(run, name, pairs), CALLS_UNTIL_KNOWN * _CALLERS)
    for _ in range(rounds):
        measured = {"bare": run("bare", callers[f"{max(_SIZES)} keys"], path="/")}
        measured |= {name: run(name, pairs) for name, pairs in callers.items()}
        newcomers = [strangers.pop() for _ in range(_STRANGERS_A_RUN)]
        measured["first calls"] = _run(servers, _STRANGERS_SECONDS, f"{max(_SIZES)} keys", newcomers, repeats=False)
        for name, each in measured.items():
            seen[name].append(each)
    return [
        {
            "keys": name, "per_second": spread(rates_of(seen[name])), "server_us": round(server_us(seen[name])),
            "ratio_to_bare": spread(ratios(seen[name], seen["bare"])),
            "ratio": spread(ratios(seen[name], seen[f"{min(_SIZES)} keys"])),
        }
        for name in (*callers, "first calls")
    ]  # fmt: skip


def _run(
    servers: Servers,
    seconds: float,
    program: str,
    pairs: Sequence[Pair],
    *,
    path: str = "/bench/door",
    repeats: bool = True,
) -> Measured:
    load = Load(servers.webs[program].port, [call_with(pairs, path)], seconds, repeats=repeats)
    return servers.run(program, load)


def _fill(home: Path, settings: dict[str, str], size: int, strangers: int) -> tuple[list[Pair], list[Pair]]:
    """A database with so many keys; gives those that call over and over, spread over the table, and those that will."""
    with opened_house(home, settings) as house, psycopg.connect(settings["USSD_DATABASE_URL"]) as connection:
        callers: list[Pair] = []
        for _ in range(_PARTS):
            callers += add_keys(house, add_clients(house, _CALLERS // _PARTS))
            clients = (size - _CALLERS) // _PARTS // _KEYS_OF_A_CLIENT
            connection.execute(_OTHER_CLIENTS, (clients,))
            connection.execute(_OTHER_KEYS, (clients, _KEYS_OF_A_CLIENT))
            connection.commit()
        newcomers = add_keys(house, add_clients(house, strangers)) if strangers else []
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE")
    return callers, newcomers
