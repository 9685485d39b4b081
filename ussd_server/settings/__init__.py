"""Settings: read from the environment once, refused with a message when incomplete or unsafe."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

from environs import Env, EnvValidationError, validate

from ussd_server.providers.package import ProviderAccess
from ussd_server.providers.registry import listed_connections, read_provider_settings
from ussd_server.providers.settings import prefix_of
from ussd_server.senders.messages import SmsAccess
from ussd_server.senders.registry import read_sms_settings
from ussd_server.settings.problems import malformed, unsafe

_POOLERS = ("session", "transaction")
_ENVIRONMENTS = ("sandbox", "production")
_LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
# The kernel keeps 107 bytes for the address of a unix socket (unix(7)).
_LONGEST_SOCKET_PATH = 107


OWN_NETWORKS = (
    "127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7",
)  # fmt: skip
"""Loopback and private networks: where operators may sign in from by default."""


class SettingsError(Exception):
    """The settings cannot be used. The message names everything that is wrong, one problem a line."""


# After +256: Airtel 70, 74, 75; MTN 76, 77, 78, 39; others 71, 72, 73, 79 (docs/OPERATIONS.md).
MOBILE_BLOCKS = ("70", "74", "75", "76", "77", "78", "39", "71", "72", "73", "79")
_LARGEST_LOG_BYTES = 50_000_000


def _require_blocks(blocks: list[str]) -> None:
    if not blocks or not all(re.fullmatch(r"[1-9][0-9]{1,3}", block) for block in blocks):
        raise EnvValidationError("Must be first digits after +256, separated by commas, such as 70,77.", [])


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings; `deploy/environment.example` explains each."""

    data_dir: Path
    bind: str
    database_url: str
    database_pooler: str | None
    redis_url: str
    environment: str
    workers: int
    threads: int
    worker_threads: int
    secrets_file: Path
    trusted_proxies: int
    allow_private_addresses: bool | None
    session_idle_seconds: int
    session_life_seconds: int
    log_level: str
    providers: Mapping[str, ProviderAccess]
    offers_sandbox: bool
    given_to_providers: Mapping[str, str] = field(repr=False)
    provider_timeout_seconds: int
    float_alert_shillings: int
    mobile_blocks: tuple[str, ...]
    public_url: str | None
    smtp_url: str | None = field(repr=False)
    mail_from: str | None
    sms: SmsAccess | None
    replica_url: str | None
    replica_lag_seconds: int
    kill_point: str | None
    channel_limit_per_minute: int
    keep_sessions_days: int
    keep_deliveries_days: int
    keep_requests_days: int
    ca_file: Path | None
    reports_dir: Path | None
    statement_headings: Path | None
    log_file: Path | None
    machines: int
    console_idle_seconds: int
    console_phone_pays: bool
    hold_money: bool
    may_lose_commits: bool
    operator_addresses: tuple[str, ...]
    exports_spans: bool

    @property
    def is_sandbox(self) -> bool:
        """Return whether this is the sandbox: the sandbox provider answers, and master keys are made when missing."""
        return self.environment == "sandbox"

    @property
    def has_console_phone(self) -> bool:
        """Return whether the console's phone dials codes: its payments are real, except in a sandbox."""
        return self.is_sandbox or self.console_phone_pays

    @property
    def web_processes(self) -> int:
        """Return the number of web processes of all machines. They share every limit while Redis is away."""
        return self.machines * self.workers

    @property
    def delivery_slots(self) -> int:
        """Return how many webhooks a worker calls at the same time. Receivers are slower than providers."""
        return 4 * self.worker_threads

    @property
    def embeds_redis(self) -> bool:
        """Return whether `run` starts its own Valkey."""
        return self.redis_url == _embedded_redis_url(self.data_dir)

    @property
    def valkey_socket(self) -> Path:
        """Return the socket of the Valkey that `run` starts."""
        return _valkey_socket(self.data_dir)

    @property
    def metrics_dir(self) -> Path:
        return self.data_dir / "metrics"


def read_settings(*, find_data: bool = False) -> Settings:
    """Read the settings from the environment. Raises SettingsError, which names every problem at once.

    Without USSD_DATA_DIR the data folder is `./var`; with `find_data` also `var` in a folder above or in the checkout,
    the first one with data in it.
    """
    # An empty setting means the same as an absent one: environment files often carry empty lines.
    for name in [name for name, value in os.environ.items() if name.startswith("USSD_") and not value.strip()]:
        del os.environ[name]
    env = Env(prefix="USSD_", eager=False)
    names = {name.removeprefix("USSD_") for name in os.environ if name.startswith("USSD_")}
    in_production = os.environ.get("USSD_ENV") == "production"
    providers, problems_of_providers = read_provider_settings(env, names, in_production=in_production)
    sms, problems_of_sms = read_sms_settings(env, names, in_production=in_production)
    data_dir = Path(env.str("DATA_DIR", "./var") or "./var").absolute()
    if find_data and not is_data_dir_given():
        data_dir = next((place for place in _places_of_data() if (place / "secrets.json").exists()), data_dir)
    settings = _read_table(env, data_dir, providers, sms)
    try:
        env.seal()
    except EnvValidationError as error:
        said: Any = error.error_messages
        raise SettingsError("\n".join(f"{name}: {' '.join(map(str, lines))}" for name, lines in said.items())) from None
    problems = [
        *malformed(settings),
        *problems_of_providers,
        *problems_of_sms,
        *(() if settings.is_sandbox else unsafe(settings)),
    ]
    if problems:
        raise SettingsError("\n".join(problems))
    return settings


def _read_table(env: Env, data_dir: Path, providers: Mapping[str, ProviderAccess], sms: SmsAccess | None) -> Settings:
    """Read every setting with its default and its bounds; `env` collects the problems."""
    return Settings(
        data_dir=data_dir,
        bind=env.str("BIND", "127.0.0.1:8000"),
        database_url=env.str("DATABASE_URL", f"sqlite:///{data_dir}/ussd.db"),
        database_pooler=env.str("DATABASE_POOLER", None, validate=validate.OneOf(_POOLERS)),
        redis_url=env.str("REDIS_URL", _embedded_redis_url(data_dir)),
        environment=env.str("ENV", "sandbox", validate=validate.OneOf(_ENVIRONMENTS)),
        workers=env.int("WORKERS", 2, validate=validate.Range(1, 256)),
        machines=env.int("MACHINES", 1, validate=validate.Range(1, 64)),
        threads=env.int("THREADS", 16, validate=validate.Range(2, 256)),
        worker_threads=env.int("WORKER_THREADS", 8, validate=validate.Range(1, 64)),
        secrets_file=env.path("SECRETS_FILE", data_dir / "secrets.json"),
        trusted_proxies=env.int("TRUSTED_PROXIES", 0, validate=validate.Range(0, 8)),
        allow_private_addresses=env.bool("ALLOW_PRIVATE_ADDRESSES", None),
        session_idle_seconds=env.int("SESSION_IDLE_SECONDS", 180, validate=validate.Range(10, 3600)),
        session_life_seconds=env.int("SESSION_LIFE_SECONDS", 600, validate=validate.Range(30, 7200)),
        log_level=env.str("LOG_LEVEL", "INFO", validate=validate.OneOf(_LOG_LEVELS)),
        log_file=env.path("LOG_FILE", None),
        providers=providers,
        offers_sandbox=env.str("ENV", "sandbox") == "sandbox" and "sandbox" in (listed_connections(env) or ["sandbox"]),
        given_to_providers={
            name: value
            for name, value in os.environ.items()
            if any(name.startswith(f"USSD_{prefix_of(provider)}") for provider in (*providers, "sms"))
        },
        # Less than half of the lease under which a worker asks.
        provider_timeout_seconds=env.int("PROVIDER_TIMEOUT_SECONDS", 20, validate=validate.Range(1, 25)),
        mobile_blocks=tuple(env.list("MOBILE_BLOCKS", list(MOBILE_BLOCKS), validate=_require_blocks)),
        float_alert_shillings=env.int("FLOAT_ALERT_SHILLINGS", 0, validate=validate.Range(0, 10**12)),
        public_url=(env.str("PUBLIC_URL", "") or "").rstrip("/") or None,
        smtp_url=env.str("SMTP_URL", None),
        mail_from=env.str("MAIL_FROM", None),
        sms=sms,
        replica_url=env.str("REPLICA_URL", None),
        replica_lag_seconds=env.int("REPLICA_LAG_SECONDS", 5, validate=validate.Range(1, 60)),
        kill_point=env.str("KILL_POINT", None),
        channel_limit_per_minute=env.int("CHANNEL_LIMIT_PER_MINUTE", 12_000, validate=validate.Range(60, 600_000)),
        keep_sessions_days=env.int("KEEP_SESSIONS_DAYS", 90, validate=validate.Range(1, 36_500)),
        keep_requests_days=env.int("KEEP_REQUESTS_DAYS", 14, validate=validate.Range(1, 3650)),
        keep_deliveries_days=env.int("KEEP_DELIVERIES_DAYS", 30, validate=validate.Range(7, 36_500)),
        operator_addresses=tuple(map(str.strip, env.list("OPERATOR_ADDRESSES", list(OWN_NETWORKS)))),
        console_idle_seconds=env.int("CONSOLE_IDLE_SECONDS", 1800, validate=validate.Range(60, 43_200)),
        console_phone_pays=env.bool("CONSOLE_PHONE_PAYS", False),
        hold_money=env.bool("HOLD_MONEY", False),
        may_lose_commits=env.bool("MAY_LOSE_COMMITS", False),
        reports_dir=env.path("REPORTS_DIR", None),
        statement_headings=env.path("STATEMENT_HEADINGS", None),
        ca_file=env.path("CA_FILE", None),
        # The name that OpenTelemetry's own libraries read.
        exports_spans=bool(os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()),
    )


def is_data_dir_given() -> bool:
    """Return whether the environment names the data folder."""
    return bool(os.environ.get("USSD_DATA_DIR", "").strip())


def has_data(settings: Settings) -> bool:
    """Return whether a service was started or migrated with these settings."""
    kind, _, place = settings.database_url.partition(":///")
    return Path(place).exists() if kind == "sqlite" else settings.data_dir.exists()


def _places_of_data() -> Iterator[Path]:
    here = Path.cwd()
    for folder in (here, *here.parents, Path(__file__).parents[2]):
        yield folder / "var"


def quieten_terminal(settings: Settings) -> Settings:
    """Send the log of this process and its later children to `service.log` in the data folder; return the settings.

    Changes nothing outside the sandbox, and where the level or the file of the log is set.
    """
    if not settings.is_sandbox or not os.environ.keys().isdisjoint({"USSD_LOG_LEVEL", "USSD_LOG_FILE"}):
        return settings
    file = settings.data_dir / "service.log"
    if file.exists() and file.stat().st_size > _LARGEST_LOG_BYTES:
        file.replace(file.with_name("service.old.log"))
    os.environ["USSD_LOG_FILE"] = str(file)
    return replace(settings, log_file=file)


def _valkey_socket(data_dir: Path) -> Path:
    inside = data_dir / "valkey.sock"
    if len(os.fsencode(inside)) <= _LONGEST_SOCKET_PATH:
        return inside
    digest = hashlib.sha256(os.fsencode(data_dir)).hexdigest()[:16]
    return Path(f"/tmp/ussd-server-{os.getuid()}-{digest}/valkey.sock")  # noqa: S108 - `run` makes sure of its owner


def _embedded_redis_url(data_dir: Path) -> str:
    return f"unix://{quote(os.fsencode(_valkey_socket(data_dir)))}"
