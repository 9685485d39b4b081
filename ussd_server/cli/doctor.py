"""`doctor`: what is wrong with this installation, and how to mend it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import click

from ussd_server.cli import show, with_json
from ussd_server.companies import build_companies
from ussd_server.messages.providers import Direction
from ussd_server.models.base import DATABASE_TROUBLE, close_connections, database_now, open_database
from ussd_server.models.schema import missing_migrations
from ussd_server.rpc.redis_link import REDIS_TROUBLE, connect
from ussd_server.settings import Settings, SettingsError, configure_logging, read_settings

# Tokens and gateways' times are compared with clocks elsewhere; more than this is noticed.
_WORST_CLOCK_DIFFERENCE_SECONDS = 2.0
_REDIS_TIMEOUT_SECONDS = 2.0
_COMPANY_TIMEOUT_SECONDS = 5.0
_CONNECTIONS = 2


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `mend` says what to do about it, None when nothing is wrong."""

    part: str
    found: str
    mend: str | None = None


@click.command
@with_json
@click.pass_context
def doctor(context: click.Context, as_json: bool) -> None:
    """Look at settings, files, database, clock, Redis and money companies; exit code 1 when something is wrong."""
    findings = list(_findings())
    text = "\n".join(
        f"ok     {each.part}: {each.found}"
        if each.mend is None
        else f"WRONG  {each.part}: {each.found}\n       {each.mend}"
        for each in findings
    )
    healthy = all(each.mend is None for each in findings)
    show({"healthy": healthy, "findings": [asdict(each) for each in findings]}, text, as_json=as_json)
    context.exit(0 if healthy else 1)


def _findings() -> Iterator[Finding]:
    try:
        settings = read_settings()
    except SettingsError as problems:
        for problem in str(problems).splitlines():
            name, _, what = problem.partition(": ")
            yield Finding(
                name, what, "Correct it in the environment; deploy/environment.example explains each setting."
            )
        return
    configure_logging(settings)
    yield Finding("settings", f"{settings.environment}, {settings.workers} web processes of {settings.threads} threads")
    yield _privacy("data folder", settings.data_dir, "`ussd-server run` makes it")
    yield _privacy("secrets", settings.secrets_file, "`ussd-server run` makes them in a sandbox")
    yield from _database(settings)
    yield _redis(settings)
    yield from _companies(settings)


def _privacy(part: str, path: Path, origin: str) -> Finding:
    try:
        mode = path.stat().st_mode
    except OSError:
        return Finding(part, f"{path} is missing or out of reach", f"Check the path and its owner; {origin}.")
    if mode & 0o077:
        return Finding(part, f"others have rights on {path}", f"Take them away: chmod go= {path}")
    return Finding(part, f"{path} is private")


def _database(settings: Settings) -> Iterator[Finding]:
    kind, _, place = settings.database_url.partition("://")
    if kind == "sqlite" and not Path(place.removeprefix("/")).exists():
        yield Finding(
            "database", "there is none yet", "Make it with `ussd-server migrate`, or start `ussd-server run`."
        )
        return
    open_database(settings.database_url, _CONNECTIONS)
    try:
        difference = abs((database_now() - datetime.now(UTC)).total_seconds())
        missing = missing_migrations()
    except DATABASE_TROUBLE:
        yield Finding("database", f"the {kind} database does not answer", "Start it, or correct USSD_DATABASE_URL.")
        return
    finally:
        close_connections()
    if missing:
        yield Finding("database", f"{len(missing)} migrations are missing", "Run `ussd-server migrate`.")
    else:
        yield Finding("database", f"{kind}, reachable and up to date")
    if difference > _WORST_CLOCK_DIFFERENCE_SECONDS:
        mend = "Let both machines follow the same time servers; the service goes by the database's clock."
        yield Finding("clock", f"{difference:.0f} s away from the database's", mend)
    else:
        yield Finding("clock", "agrees with the database's")


def _redis(settings: Settings) -> Finding:
    mend = (
        "It runs while `ussd-server run` does; valkey.log in the data folder says more."
        if settings.embeds_redis
        else "Start it, or correct USSD_REDIS_URL; until then each web process limits its share of the calls."
    )
    try:
        connect(settings.redis_url, timeout_seconds=_REDIS_TIMEOUT_SECONDS).ping()
    except ValueError as refusal:
        return Finding("Redis", str(refusal), "Correct USSD_REDIS_URL.")
    except REDIS_TROUBLE:
        return Finding("Redis", "it does not answer", mend)
    return Finding("Redis", "answers")


def _companies(settings: Settings) -> Iterator[Finding]:
    """Every money company is asked for our balance, which needs the network, its address and our keys to be right."""
    companies = build_companies(settings, lambda: datetime.now(UTC), lambda _: "")
    if not companies:
        yield Finding("money companies", "none is switched on", "Set those of USSD_MTN_ or USSD_AIRTEL_ that apply.")
    for company in companies:
        if any(company.balance_cents(each, _COMPANY_TIMEOUT_SECONDS) is not None for each in Direction):
            yield Finding(company.name, "tells our balance")
        else:
            mend = (
                f"Check the network, the settings that begin with USSD_{company.name.upper()}_ and, if the company's "
                "certificate is not of a public authority, USSD_CA_FILE."
            )
            yield Finding(company.name, "does not tell our balance", mend)
