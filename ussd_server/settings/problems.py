"""Problems of settings, in sentences that begin with the name of the setting."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ussd_server.outbound.smtp import read_sender, read_smtp_url
from ussd_server.outbound.transport import authorities
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.providers.settings import problems_of_address
from ussd_server.providers.statement_format import problem_of_additions
from ussd_server.redis.client import hosts_of, is_address
from ussd_server.security.secrets_file import is_private

if TYPE_CHECKING:
    from ussd_server.settings import Settings

LOCAL_HOSTS = (None, "", "localhost", "127.0.0.1", "::1")
"""The names of this machine in an address."""


def malformed(settings: Settings) -> list[str]:
    """Problems of settings in any environment."""
    problems = []
    host, colon, port = settings.bind.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        problems.append("USSD_BIND: must be an address and a port, such as 127.0.0.1:8000")
    if _scheme_of(settings.database_url) not in ("sqlite", "postgresql", "postgres"):
        problems.append("USSD_DATABASE_URL: must begin with sqlite:/// or postgresql://")
    if settings.replica_url is not None:
        if settings.database_url.startswith("sqlite"):
            problems.append("USSD_REPLICA_URL: only PostgreSQL has replicas, and USSD_DATABASE_URL names SQLite")
        elif _scheme_of(settings.replica_url) not in ("postgresql", "postgres"):
            problems.append("USSD_REPLICA_URL: must begin with postgresql://")
    if not is_address(settings.redis_url):
        problems.append(
            "USSD_REDIS_URL: must be redis://host:port/db, rediss://..., unix:///path, "
            "redis+cluster://host:port,host:port or redis+sentinel://host:port,host:port/service"
        )
    for network in settings.operator_addresses:
        try:
            ipaddress.ip_network(network)
        except ValueError:
            problems.append("USSD_OPERATOR_ADDRESSES: must be networks with commas between, such as 10.1.0.0/16,::1")
            break
    if settings.session_life_seconds < settings.session_idle_seconds:
        problems.append("USSD_SESSION_LIFE_SECONDS: must not be shorter than USSD_SESSION_IDLE_SECONDS")
    if settings.public_url is not None:
        problems += problems_of_address("PUBLIC_URL", settings.public_url, https_only=not settings.is_sandbox)
    problems += _problems_of_mail(settings)
    if settings.statement_headings is not None:
        problem = problem_of_additions(settings.statement_headings, PROVIDER_NAMES)
        problems += [f"USSD_STATEMENT_HEADINGS: {problem}"] if problem else []
    try:
        if settings.ca_file is not None:
            authorities(settings.ca_file)
    except OSError:
        problems.append("USSD_CA_FILE: must be a file of certificates in PEM that this user can read")
    return problems


def unsafe(settings: Settings) -> list[str]:
    """Problems of settings outside of a sandbox."""
    problems = []
    if "USSD_SECRETS_FILE" not in os.environ:
        problems.append(
            "USSD_SECRETS_FILE: production needs secrets of its own; make them with `ussd-server secrets create FILE`"
        )
    elif not settings.secrets_file.is_file():
        problems.append("USSD_SECRETS_FILE: there is no such file; make it with `ussd-server secrets create FILE`")
    elif not is_private(settings.secrets_file):
        problems.append("USSD_SECRETS_FILE: others can read this file; take their rights away with chmod 600")
    if settings.allow_private_addresses:
        problems.append("USSD_ALLOW_PRIVATE_ADDRESSES: is for development; unset it in production")
    if settings.kill_point is not None:
        problems.append("USSD_KILL_POINT: is for fault tests; unset it in production")
    redis_is_elsewhere = any(host not in LOCAL_HOSTS for host in hosts_of(settings.redis_url))
    if settings.database_url.startswith("sqlite") and redis_is_elsewhere:
        problems.append("USSD_DATABASE_URL: SQLite serves one machine, but Redis is on another; use PostgreSQL")
    elif settings.database_url.startswith("sqlite") and settings.machines > 1:
        problems.append("USSD_DATABASE_URL: SQLite serves one machine, but USSD_MACHINES says more; use PostgreSQL")
    return problems


def _problems_of_mail(settings: Settings) -> Iterator[str]:
    """Yield what is wrong with the settings of mail. Mails carry links, so they need to know the public address."""
    if settings.smtp_url is None:
        return
    try:
        read_smtp_url(settings.smtp_url)
    except ValueError:
        yield "USSD_SMTP_URL: must be smtp://user:password@host:port or smtps://...; write other characters as %40"
    try:
        read_sender(settings.mail_from or "")
    except ValueError:
        yield "USSD_MAIL_FROM: USSD_SMTP_URL needs a sender, such as Payments <noreply@example.com>"
    if settings.public_url is None:
        yield "USSD_PUBLIC_URL: USSD_SMTP_URL needs it, because mails carry links to the console"


def _scheme_of(url: str) -> str | None:
    """The scheme of an address; None for one that cannot be read."""
    try:
        return urlsplit(url).scheme
    except ValueError:
        return None
