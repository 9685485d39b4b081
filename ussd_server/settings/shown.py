"""The settings in force as an operator may read them."""

from __future__ import annotations

from urllib.parse import urlsplit

from ussd_server.settings import Settings

# A setting that is not named here is not shown.
_SHOWN = (
    "environment", "machines", "workers", "threads", "worker_threads", "bind", "public_url", "trusted_proxies",
    "mail_from", "operator_addresses", "console_idle_seconds", "console_phone_pays", "session_idle_seconds",
    "hold_money", "may_lose_commits", "session_life_seconds", "channel_limit_per_minute", "provider_timeout_seconds",
    "float_alert_shillings", "keep_sessions_days", "keep_deliveries_days", "keep_requests_days", "replica_lag_seconds",
    "allow_private_addresses", "mobile_blocks", "log_level",
    "data_dir", "secrets_file", "reports_dir", "statement_headings", "ca_file",
)  # fmt: skip
_NAMES = {"environment": "USSD_ENV"}
_ADDRESSES = ("database_url", "replica_url", "redis_url", "smtp_url")
# Of the settings of providers and of the sender of messages, all others are secrets or may be.
_SHOWN_OF_PROVIDERS = (
    "_BASE_URL",
    "_ENVIRONMENT",
    "_COUNTRY",
    "_CURRENCY",
    "_VERSION",
    "_ENQUIRY_SECONDS",
    "_ADAPTER",
    "_KIND",
    "_ACCOUNT",
    "_DRAINING",
)


def shown_settings(settings: Settings) -> dict[str, str]:
    """Settings by their environment variables. Addresses of servers come without user, password and parameters."""
    values = {name: _text(getattr(settings, name)) for name in _SHOWN}
    values |= {name: _place(getattr(settings, name)) for name in _ADDRESSES}
    named = {_NAMES.get(name, f"USSD_{name.upper()}"): value for name, value in values.items()}
    of_providers = {
        name: value if name.endswith(_SHOWN_OF_PROVIDERS) else "set, not shown"
        for name, value in sorted(settings.given_to_providers.items())
    }
    return named | of_providers | {"Providers": _text(sorted(settings.providers))}


def _place(url: str | None) -> str:
    if not url:
        return "not set"
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _text(value: object) -> str:
    if value is None or value == "":
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list | tuple) else str(value)
