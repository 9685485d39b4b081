"""The checks of `doctor` about the database, its standbys and replica, and the keys in it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from peewee import PeeweeException

from ussd_server.cli.refusals import explain
from ussd_server.database.dialect import UnsupportedDatabaseError
from ussd_server.database.opening import open_database
from ussd_server.database.partitions import end_of_requests, ends_of_partitions
from ussd_server.database.schema import missing_migrations
from ussd_server.database.servers import Replica, Standbys, present_standbys
from ussd_server.database.unit_of_work import close_connections, database_fault, database_now, dialect
from ussd_server.models.clients import UserFactor
from ussd_server.models.keys import ApiKey
from ussd_server.models.operations import kept_check_value, read_service_clock
from ussd_server.models.operators import Operator
from ussd_server.models.ussd import Channel, SmppBind
from ussd_server.security.key_ring import Keyring, master_key_of
from ussd_server.security.secrets_file import Ring
from ussd_server.services.operations.messages import DoctorFinding
from ussd_server.services.providers.accounts import renamed_accounts
from ussd_server.services.providers.messages import written_places
from ussd_server.services.providers.places import waiting_elsewhere
from ussd_server.services.providers.providers import Providers
from ussd_server.services.transactions.provider_references import WRONG_REFERENCE_KEY
from ussd_server.services.ussd.smpp_links import SILENT
from ussd_server.settings import Settings, has_data
from ussd_server.values import counted

# Tokens and gateways' times are compared with other clocks; a larger difference matters.
_WORST_CLOCK_DIFFERENCE_SECONDS = 2.0
# The worker adds months to partitioned tables when they end within 120 days; it had a month for that.
_LEAST_AHEAD = timedelta(days=90)
_CONNECTIONS = 2


def check_database(settings: Settings, keyring: Keyring | None) -> Iterator[DoctorFinding]:
    """Check the database, its standbys and replica, and the keys; yield the result of each check."""
    kind = settings.database_url.partition("://")[0]
    if kind == "sqlite" and not has_data(settings):
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
        if not missing:
            yield from smpp_binds()
        yield from _partitions()
        yield from _days_of_requests()
        database_says = database_fault()
        if (standbys := present_standbys()) is not None:
            yield losses_of_a_failover(standbys, are_accepted=settings.may_lose_commits)
    except UnsupportedDatabaseError as refusal:
        mend = "Do what it says, or move to one that is supported: dump this one, restore it there."
        yield DoctorFinding("database", str(refusal), mend)
        return
    except PeeweeException as error:
        fault = explain(error)
        if fault is None:
            raise
        yield DoctorFinding("database", f"the {kind} database {fault.problem}", fault.mend)
        return
    finally:
        close_connections()
    if missing:
        yield DoctorFinding("database", f"{counted(len(missing), 'migration')} missing", "Run `ussd-server migrate`.")
    elif database_says == "full":
        mend = "Make room on it. Until then payments and screens are refused; what was answered is kept."
        yield DoctorFinding("database", f"no room left on the {kind} database's disk", mend)
    elif database_says == "read-only":
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


def losses_of_a_failover(standbys: Standbys, *, are_accepted: bool) -> DoctorFinding:
    """Say what a failover to a standby could lose now, and whether USSD_MAY_LOSE_COMMITS accepts that."""
    if standbys.are_synchronous:
        return DoctorFinding("failover", "loses nothing: a standby has each commit before it is answered")
    if standbys.number:
        loss = "may lose the commits of the last moments: no standby is synchronous"
        mend = "Set synchronous_standby_names on the primary, or accept the loss with USSD_MAY_LOSE_COMMITS=1."
        return DoctorFinding("failover", loss, None if are_accepted else mend)
    return DoctorFinding("failover", "there is no standby: without this server the last backup is what is left")


def callers() -> DoctorFinding:
    """Check that the last calls of all keys did not come from one private address, which is that of a proxy."""
    used = [row for row in ApiKey.select(ApiKey.client_id, ApiKey.last_used_address) if row.last_used_address]
    addresses, clients = {str(row.last_used_address) for row in used}, {row.client_id for row in used}
    if len(addresses) == 1 and _is_of_a_proxy(*addresses, is_shared=len(clients) > 1):
        bound = ApiKey.select().where(ApiKey.allowed_addresses.is_null(False)).count()
        result = f"the last calls of all keys came from {addresses.pop()}, which seems to be a proxy of yours"
        mend = "Correct USSD_TRUSTED_PROXIES: the number of proxies that each add to X-Forwarded-For."
        return DoctorFinding("callers", f"{result}; keys with allowed addresses: {bound}" if bound else result, mend)
    return DoctorFinding("callers", f"keys were last used from {len(addresses)} addresses")


def _is_of_a_proxy(address: str, *, is_shared: bool) -> bool:
    try:
        parsed = ip_address(address)
    except ValueError:
        return False
    return parsed.is_loopback or (is_shared and not parsed.is_global)


def smpp_binds() -> Iterator[DoctorFinding]:
    """Yield for each open SMPP channel how many binds are up."""
    recent = SmppBind.seen_at > read_service_clock().service_at - SILENT
    for channel in Channel.select().where(Channel.is_active, Channel.adapter == "smpp").order_by(Channel.id):
        part = f"SMPP channel {channel.id}"
        binds = list(SmppBind.select().where(recent, SmppBind.channel_id == channel.id))
        bound = sum(bind.state == "bound" for bind in binds)
        if bound:
            yield DoctorFinding(part, f"binds that are up: {bound} of {len(binds)}")
        elif binds:
            mend = "Compare the host, the port, the system id, the password and our address with the operator."
            yield DoctorFinding(part, f"no bind is up: {binds[0].reason or binds[0].state}", mend)
        else:
            mend = "Start `ussd-server smpp` (deploy/ussd-server-smpp.service), or disable the channel."
            yield DoctorFinding(part, "no process serves it", mend)


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


def _days_of_requests() -> Iterator[DoctorFinding]:
    """Check that the worker added tomorrow's partition of the request log, if it ever added one."""
    end = end_of_requests()
    if end is None:
        return
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).date()
    if end.date() > tomorrow:
        yield DoctorFinding("request log", f"has partitions until {end:%Y-%m-%d}")
        return
    mend = "The worker adds days: see that it runs, that its user owns api_requests, and what its log says."
    result = f"has no partition for {tomorrow}; requests are kept, but removed row by row"
    yield DoctorFinding("request log", result, mend)


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


def check_places(settings: Settings, providers: Providers) -> Iterator[DoctorFinding]:
    """Check that the settings have every place to which an unfinished payment was sent, and no account another name."""
    if settings.database_url.startswith("sqlite") and not has_data(settings):
        return
    open_database(settings.database_url, _CONNECTIONS, settings.database_pooler)
    try:
        waiting, renamed = waiting_elsewhere(providers), renamed_accounts(providers)
    except PeeweeException:
        # The check of the database has said what is wrong.
        return
    finally:
        close_connections()
    for name, places in waiting.items():
        mend = (
            "Set the address, environment and user that these payments were sent with, beside the new ones, until they "
            "are final; or let two operators decide about each: `ussd-server transactions review`."
        )
        yield DoctorFinding(name, f"payments wait: {written_places(places)}, which the settings no longer have", mend)
    yield from (DoctorFinding(*each) for each in renamed)


def _reference_key(keyring: Keyring) -> DoctorFinding:
    """Check that names of payments at providers are derived from the same key as before."""
    kept = kept_check_value()
    if kept not in (None, keyring.reference_check_value):
        mend = "Until then no payment is created, because a repeated one could be paid twice."
        return DoctorFinding("reference key", WRONG_REFERENCE_KEY, mend)
    state = "not used yet" if kept is None else "the one that this database's payments were made with"
    return DoctorFinding("reference key", f"{state}; it never changes, keep a copy of the secrets file")
