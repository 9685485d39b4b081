"""The checks of `doctor`. Each returns what it found, and how to repair it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from ussd_server.cli.service.doctor_database import check_database, check_places
from ussd_server.database.opening import connection_parts
from ussd_server.providers.http.shared_tokens import SharedTokens
from ussd_server.providers.messages import Direction, Provider
from ussd_server.providers.registry import PACKAGES, build_providers
from ussd_server.providers.settings import prefix_of
from ussd_server.redis.client import REDIS_ERRORS, accepts_writes_alone, connect, hosts_of
from ussd_server.security.key_ring import Keyring, Vault
from ussd_server.security.secrets_file import is_private
from ussd_server.server.running import OF_PROCESSES_ALONE, RunningProcess
from ussd_server.services.mail.messages import TROUBLES
from ussd_server.services.mail.sending import smtp_server
from ussd_server.services.operations.messages import DoctorFinding
from ussd_server.services.providers.providers import Providers
from ussd_server.settings import Settings
from ussd_server.settings.problems import LOCAL_HOSTS

_EVERY_ADDRESS = ("0.0.0.0", "[::]")  # noqa: S104
_REDIS_TIMEOUT_SECONDS = 2.0
_SMTP_TIMEOUT_SECONDS = 10.0
_PROVIDER_TIMEOUT_SECONDS = 5.0


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
        mend = "Restore it from the copy that was kept; without it no secret can be read."
        yield DoctorFinding("keys", f"{settings.secrets_file} does not hold all keys", mend)
    yield from check_database(settings, keyring)
    yield _redis(settings)
    yield _mail(settings)
    if not settings.is_sandbox:
        yield _proxies(settings)
        yield _public_url(settings)
        yield from _links_without_tls(settings)
    yield from _providers(settings, keyring)


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


def _proxies(settings: Settings) -> DoctorFinding:
    """Check that the service gets clients' addresses from its proxies."""
    host, trusted = settings.bind.rpartition(":")[0], settings.trusted_proxies
    if not trusted:
        mend = "Set USSD_TRUSTED_PROXIES to the number of proxies in front, 1 for deploy/nginx.conf."
        return DoctorFinding(
            "proxies", "none is trusted, so all callers seem to be one, with one limit for wrong secrets", mend
        )
    if host in _EVERY_ADDRESS:
        mend = "Set USSD_BIND to an address that only the proxies reach."
        return DoctorFinding(
            "proxies", f"{trusted} trusted, but others reach {settings.bind} too and may name any address", mend
        )
    return DoctorFinding("proxies", f"{trusted} trusted about the address of a caller")


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
        mend = (
            "Begin it with rediss://; put ?ssl=true behind redis+cluster:// and redis+sentinel://, or ?ssl=false where "
            "the network is yours alone."
        )
        yield DoctorFinding("USSD_REDIS_URL", "leads to another machine without TLS", mend)


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
    except REDIS_ERRORS:
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


def _providers(settings: Settings, keyring: Keyring | None) -> Iterator[DoctorFinding]:
    """Query every provider for our balance, which needs the network, its address and our credentials.

    Uses the access tokens of the running service, because a new one may end them.
    """
    tokens = SharedTokens(settings.redis_url, Vault(keyring)) if keyring else None
    providers = build_providers(
        settings.providers,
        lambda: datetime.now(UTC),
        ca_file=settings.ca_file,
        is_sandbox=settings.offers_sandbox,
        tokens=tokens,
    )
    if not providers:
        prefixes = " or ".join(f"USSD_{each.name.upper()}_" for each in PACKAGES if each.read_settings)
        yield DoctorFinding("providers", "none is switched on", f"Set those of {prefixes} that apply.")
    for provider in providers:
        yield _check_balance(provider)
    yield from check_places(settings, Providers(providers))


def _check_balance(provider: Provider) -> DoctorFinding:
    """What one provider says of our balance. Each product has credentials, so that one may be refused alone."""
    if not provider.shows_balance:
        return DoctorFinding(provider.connection, "was not asked: it shows no balance")
    is_returned, refused = False, dict[str, str]()
    for direction in (Direction.COLLECTION, Direction.DISBURSEMENT):
        if not provider.bounds[direction].enabled:
            continue
        if provider.balance_cents(direction, _PROVIDER_TIMEOUT_SECONDS) is not None:
            is_returned = True
        elif provider.refusal:
            refused[f" for {direction}s"] = provider.refusal
    if is_returned and not refused:
        return DoctorFinding(provider.connection, "returns our balance")
    mend = (
        f"docs/guides/{provider.name}.md lists the causes. Check the network, the settings that begin with "
        f"USSD_{prefix_of(provider.connection)} and, if the provider's certificate is not of a public authority, "
        "USSD_CA_FILE."
    )
    product, said = next(iter(refused.items()), ("", ""))
    what = f"does not return our balance{product if is_returned else ''}"
    return DoctorFinding(provider.connection, f"{what}: {said}" if said else what, mend)
