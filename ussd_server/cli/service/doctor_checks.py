"""The checks of `doctor`. Each returns what it found, and how to repair it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

from peewee import PeeweeException

from ussd_server.cli.service.database_errors import explain
from ussd_server.cli.service.doctor_callers import callers, proxies
from ussd_server.database.connections import UnsupportedDatabaseError
from ussd_server.database.connections.postgres import connection_parts
from ussd_server.database.dialect import Standbys
from ussd_server.database.partitions import ends_of_partitions
from ussd_server.database.replica import Replica
from ussd_server.database.schema import missing_migrations
from ussd_server.database.unit_of_work import close_connections, database_fault, database_now, dialect, open_database
from ussd_server.models.clients import UserFactor
from ussd_server.models.keys import ApiKey
from ussd_server.models.operators import Operator
from ussd_server.models.service_clock import read_service_clock
from ussd_server.providers.messages import Direction
from ussd_server.providers.registry import PACKAGES, build_providers
from ussd_server.redis.client import REDIS_TROUBLE, accepts_writes_alone, connect, hosts_of
from ussd_server.security.credentials import master_key_of
from ussd_server.security.key_ring import Keyring, Ring
from ussd_server.security.private_file import is_private
from ussd_server.server.running import OF_PROCESSES_ALONE, RunningProcess
from ussd_server.services.mail.messages import TROUBLES
from ussd_server.services.mail.sending import smtp_server
from ussd_server.services.operations.messages import DoctorFinding
from ussd_server.services.transactions.names import (
    WRONG_REFERENCE_KEY,
    check_value,
    kept_check_value,
)
from ussd_server.settings import LOCAL_HOSTS, Settings

# Tokens and gateways' times are compared with other clocks; a larger difference matters.
_WORST_CLOCK_DIFFERENCE_SECONDS = 2.0
# The worker adds months to partitioned tables when they end within 120 days; it had a month for that.
_LEAST_AHEAD = timedelta(days=90)
_REDIS_TIMEOUT_SECONDS = 2.0
_SMTP_TIMEOUT_SECONDS = 10.0
_PROVIDER_TIMEOUT_SECONDS = 5.0
_CONNECTIONS = 2


def check_installation(settings: Settings, running: list[RunningProcess]) -> Iterator[DoctorFinding]:
    """Check settings, processes, files, database, clock, Redis and providers; yield the result of each check."""
    processes = f"{settings.workers} web processes of {settings.threads} threads"
    yield DoctorFinding("settings", f"{settings.environment}, machines: {settings.machines}, on each {processes}")
    yield from _running(settings, running)
    if settings.hold_money:
        yield DoctorFinding(
            "money",
            "no payment is created or sent (USSD_HOLD_MONEY)",
            "Unset it once the recovery is done, and restart.",
        )
    yield _privacy("data folder", settings.data_dir, "`ussd-server run` makes it")
    yield _privacy("secrets", settings.secrets_file, "`ussd-server run` makes them in a sandbox")
    keyring = _keyring(settings)
    if keyring is None:
        mend = (
            "Restore it from the copy that was kept; without it no secret can be read. A file of an earlier version "
            f"receives its reference key with `ussd-server secrets create {settings.secrets_file}`."
        )
        yield DoctorFinding("keys", f"{settings.secrets_file} does not hold all keys", mend)
    yield from _database(settings, keyring)
    yield _redis(settings)
    yield _mail(settings)
    if not settings.is_sandbox:
        yield proxies(settings)
        yield _public_url(settings)
        yield from _links_without_tls(settings)
    yield from _providers(settings)


def _running(settings: Settings, running: list[RunningProcess]) -> Iterator[DoctorFinding]:
    """Compare the settings of the running processes with those of this shell."""
    if not running:
        yield DoctorFinding("running", f"no process of the service runs with {settings.data_dir}")
    for each in running:
        part, since = f"running {each.process}", f"process {each.pid}, since {each.started_at}"
        if different := each.differences(settings):
            mend = "Restart it if the settings here are right; otherwise set them here as they are there."
            yield DoctorFinding(
                part,
                f"{since}, with other settings: {'; '.join(different.values())}",
                None if different.keys() <= OF_PROCESSES_ALONE else mend,
            )
        else:
            yield DoctorFinding(part, f"{since}, with the settings of this shell")


def _privacy(part: str, path: Path, origin: str) -> DoctorFinding:
    try:
        is_closed = is_private(path)
    except OSError:
        return DoctorFinding(part, f"{path} is missing or out of reach", f"Check the path and its owner; {origin}.")
    if not is_closed:
        return DoctorFinding(part, f"others have rights on {path}", f"Take them away: chmod go= {path}")
    return DoctorFinding(part, f"{path} is private")


def _keyring(settings: Settings) -> Keyring | None:
    try:
        return Keyring(settings.secrets_file)
    except (OSError, ValueError):
        return None


def _database(settings: Settings, keyring: Keyring | None) -> Iterator[DoctorFinding]:
    kind, _, place = settings.database_url.partition("://")
    if kind == "sqlite" and not Path(place.removeprefix("/")).exists():
        yield DoctorFinding(
            "database", "there is none yet", "Create it with `ussd-server migrate`, or start `ussd-server run`."
        )
        return
    open_database(settings.database_url, _CONNECTIONS, settings.database_pooler)
    try:
        dialect().check_version()
        difference = abs((database_now() - datetime.now(UTC)).total_seconds())
        missing = missing_migrations()
        ahead = round(read_service_clock().ahead.total_seconds())
        if keyring is not None and not missing:
            yield _keys(keyring)
            yield _reference_key(keyring)
        if not missing and not settings.is_sandbox:
            yield callers()
        yield from _partitions()
        is_read_only = database_fault() == "read-only"
        if (standbys := dialect().standbys()) is not None:
            yield losses_of_a_failover(standbys)
    except UnsupportedDatabaseError as refusal:
        mend = "Do what it says, or move to one that is supported: dump this one, restore it there."
        yield DoctorFinding("database", str(refusal), mend)
        return
    except PeeweeException as error:
        trouble = explain(error)
        if trouble is None:
            raise
        yield DoctorFinding("database", f"the {kind} database {trouble.found}", trouble.mend)
        return
    finally:
        close_connections()
    if missing:
        yield DoctorFinding("database", f"{len(missing)} migrations are missing", "Run `ussd-server migrate`.")
    elif is_read_only:
        mend = "If it is a standby, point USSD_DATABASE_URL to the primary or name both; else find who set it so."
        yield DoctorFinding("database", f"the {kind} database only reads", mend)
    else:
        yield DoctorFinding("database", f"{kind}, reachable and up to date")
    if difference > _WORST_CLOCK_DIFFERENCE_SECONDS:
        mend = "Let both machines follow the same time servers; the service goes by the database's clock."
        yield DoctorFinding("clock", f"{difference:.0f} s away from the database's", mend)
    elif ahead:
        mend = "A clock was set; it is made up at 1 %. docs/OPERATIONS.md, Repair, says how to end it at once."
        yield DoctorFinding("clock", f"the service's time is {ahead:+} s from the database's", mend)
    else:
        yield DoctorFinding("clock", "agrees with the database's")
    if settings.replica_url:
        yield examine_replica(settings.replica_url, settings.replica_lag_seconds)


def losses_of_a_failover(standbys: Standbys) -> DoctorFinding:
    """Say what a failover to a standby could lose now."""
    if standbys.are_synchronous:
        return DoctorFinding("failover", "loses nothing: a standby has each commit before it is answered")
    if standbys.number:
        mend = "Set synchronous_standby_names on the primary if no answered payment may be forgotten."
        return DoctorFinding("failover", "may lose the commits of the last moments: no standby is synchronous", mend)
    return DoctorFinding("failover", "there is no standby: without this server the last backup is what is left")


def _partitions() -> Iterator[DoctorFinding]:
    """Check that the worker adds months to partitioned tables, if there are any."""
    ends = ends_of_partitions()
    if not ends:
        return
    table, end = min(ends.items(), key=lambda each: each[1])
    if end - datetime.now(UTC) >= _LEAST_AHEAD:
        yield DoctorFinding("partitions", f"partitioned tables have room until {end:%Y-%m-%d}")
        return
    mend = "The worker adds months: see that it runs, that its user owns the table, and what its log says."
    yield DoctorFinding(
        "partitions", f"{table} has room until {end:%Y-%m-%d} only; then no payment can be created", mend
    )


def examine_replica(url: str, most_lag_seconds: int) -> DoctorFinding:
    """Check that a replica answers, and its lag."""
    replica = Replica(url, _CONNECTIONS, most_lag_seconds, lambda _: None)
    lag = replica.lag_seconds()
    replica.close()
    if lag is None:
        mend = "Start it as a standby of the database, or correct USSD_REPLICA_URL."
        return DoctorFinding("replica", "it does not answer as a replica", mend)
    if lag > most_lag_seconds:
        mend = "See whether it still receives from the primary; until then lists are read from there."
        return DoctorFinding("replica", f"{lag:.0f} s behind", mend)
    return DoctorFinding("replica", f"{lag:.1f} s behind")


def _links_without_tls(settings: Settings) -> Iterator[DoctorFinding]:
    """Find servers on other machines that are reached without TLS."""
    for setting, url in (("USSD_DATABASE_URL", settings.database_url), ("USSD_REPLICA_URL", settings.replica_url)):
        if url is None or url.startswith("sqlite"):
            continue
        named = connection_parts(url)
        hosts = str(named.get("host") or named.get("hostaddr") or "").split(",")
        is_elsewhere = any(not host.startswith(("/", "@")) and host not in LOCAL_HOSTS for host in hosts)
        if is_elsewhere and named.get("sslmode") not in ("require", "verify-ca", "verify-full"):
            mend = "Put ?sslmode=verify-full behind it, and sslrootcert=FILE for an authority of your own."
            yield DoctorFinding(setting, "leads to another machine without demanding TLS", mend)
    is_elsewhere = any(host not in LOCAL_HOSTS for host in hosts_of(settings.redis_url))
    in_clear = not settings.redis_url.startswith("rediss:") and "ssl=" not in urlsplit(settings.redis_url).query
    if is_elsewhere and in_clear:
        mend = "Begin it with rediss://; put ?ssl=true behind redis+cluster:// and redis+sentinel://."
        yield DoctorFinding("USSD_REDIS_URL", "leads to another machine without TLS", mend)


def _keys(keyring: Keyring) -> DoctorFinding:
    """Check that the master keys belong to this database."""
    used = {row.digest_key_id for row in ApiKey.select(ApiKey.digest_key_id).distinct()}
    if any(keyring.find(Ring.DIGESTS, key_id) is None for key_id in used):
        mend = "Put back the secrets file that belongs to this database: its API keys cannot be checked with this one."
        return DoctorFinding("keys", "API keys use master keys that are missing here", mend)
    factors = [*Operator.select(Operator.factor_sealed), *UserFactor.select(UserFactor.factor_sealed)]
    if any(keyring.find(Ring.SEALING, master_key_of(row.factor_sealed)) is None for row in factors):
        mend = "Put back the secrets file that belongs to this database: with this one second factors cannot be read."
        return DoctorFinding("keys", "second factors use master keys that are missing here", mend)
    return DoctorFinding("keys", "belong to this database")


def _reference_key(keyring: Keyring) -> DoctorFinding:
    """Check that names of payments at providers are derived from the same key as before."""
    kept = kept_check_value()
    if kept not in (None, check_value(keyring)):
        mend = "Until then no payment is created, because a repeated one could be paid twice."
        return DoctorFinding("reference key", WRONG_REFERENCE_KEY, mend)
    found = "not used yet" if kept is None else "the one that this database's payments were made with"
    return DoctorFinding("reference key", f"{found}; it never changes, keep a copy of the secrets file")


def _redis(settings: Settings) -> DoctorFinding:
    mend = (
        "It runs while `ussd-server run` does; valkey.log in the data folder says more."
        if settings.embeds_redis
        else "Start it, or correct USSD_REDIS_URL; until then each web process applies its share of the limits."
    )
    try:
        client = connect(settings.redis_url, timeout_seconds=_REDIS_TIMEOUT_SECONDS)
        client.ping()
    except ValueError as refusal:
        return DoctorFinding("Redis", str(refusal), "Correct USSD_REDIS_URL.")
    except REDIS_TROUBLE:
        return DoctorFinding("Redis", "it does not answer", mend)
    if settings.redis_url.startswith("redis+sentinel:") and accepts_writes_alone(client):
        mend = "Set min-replicas-to-write 1 and min-replicas-max-lag 10 on all its servers (docs/OPERATIONS.md)."
        return DoctorFinding("Redis", "a master that was cut off still accepts deleted keys", mend)
    return DoctorFinding("Redis", "answers")


def _public_url(settings: Settings) -> DoctorFinding:
    if settings.public_url is None:
        mend = "Set USSD_PUBLIC_URL; until then links to choose a password take their host from the request."
        return DoctorFinding("USSD_PUBLIC_URL", "is not set", mend)
    return DoctorFinding("USSD_PUBLIC_URL", settings.public_url)


def _mail(settings: Settings) -> DoctorFinding:
    """Log in to the mail server, and send nothing."""
    server = smtp_server(settings, _SMTP_TIMEOUT_SECONDS)
    if server is None:
        return DoctorFinding("mail", "none is sent: USSD_SMTP_URL is not set")
    trouble = server.try_login().trouble
    if trouble is None:
        return DoctorFinding("mail", "the mail server lets us in")
    mend = "Check USSD_SMTP_URL, the network and, if the certificate is not of a public authority, USSD_CA_FILE."
    return DoctorFinding("mail", TROUBLES[trouble], mend)


def _providers(settings: Settings) -> Iterator[DoctorFinding]:
    """Query every provider for our balance, which needs the network, its address and our credentials."""
    providers = build_providers(settings, lambda: datetime.now(UTC), lambda _: "")
    if not providers:
        known = " or ".join(f"USSD_{each.name.upper()}_" for each in PACKAGES if each.read_settings)
        yield DoctorFinding("providers", "none is switched on", f"Set those of {known} that apply.")
    for provider in providers:
        if not provider.shows_balance:
            yield DoctorFinding(provider.name, "was not asked: it shows no balance")
        elif any(provider.balance_cents(each, _PROVIDER_TIMEOUT_SECONDS) is not None for each in Direction):
            yield DoctorFinding(provider.name, "returns our balance")
        else:
            mend = (
                f"Check the network, the settings that begin with USSD_{provider.name.upper()}_ and, if the provider's "
                "certificate is not of a public authority, USSD_CA_FILE."
            )
            yield DoctorFinding(provider.name, "does not return our balance", mend)
