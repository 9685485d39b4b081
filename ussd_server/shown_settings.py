"""The settings in force as an operator may read them in the console."""

from __future__ import annotations

from urllib.parse import urlsplit

from ussd_server.settings import Settings

# A setting that is not named here is not shown.
_SHOWN = (
    "environment", "machines", "workers", "threads", "worker_threads", "bind", "public_url", "trusted_proxies",
    "operator_addresses", "console_idle_seconds", "session_idle_seconds", "session_life_seconds",
    "channel_limit_per_minute", "provider_timeout_seconds", "float_alert_shillings", "keep_sessions_days",
    "keep_deliveries_days", "replica_lag_seconds", "allow_private_addresses", "log_level",
)  # fmt: skip
_ADDRESSES = ("database_url", "replica_url", "redis_url")


def shown_settings(settings: Settings) -> dict[str, str]:
    """Settings by their environment variables. Addresses of servers come without user, password and parameters."""
    shown = {name: _text(getattr(settings, name)) for name in _SHOWN}
    shown |= {name: _place(getattr(settings, name)) for name in _ADDRESSES}
    named = {f"USSD_{name.upper()}": value for name, value in shown.items()}
    return named | {"Providers": _text(sorted(settings.providers))}


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
