"""The providers that this version has, by their folders."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from pathlib import Path

from environs import Env

from ussd_server.outbound.transport import Transport, authorities
from ussd_server.providers.http.shared_tokens import SharedTokens
from ussd_server.providers.messages import Provider
from ussd_server.providers.names import PROVIDER_NAMES
from ussd_server.providers.package import ProviderAccess, ProviderPackage
from ussd_server.providers.settings import SettingsReader, prefix_of

_CONNECTION_NAME = re.compile(r"[a-z0-9-]{1,20}")
PACKAGES: list[ProviderPackage] = []
FOLDER_PROBLEMS: list[str] = []


def read_folder(name: str) -> ProviderPackage:
    """The declaration in the folder of a provider. Raises ValueError with what the folder lacks, in a sentence."""
    folder = f"ussd_server/providers/{name}"
    try:
        package = getattr(import_module(f"ussd_server.providers.{name}"), "PACKAGE", None)
    except FileNotFoundError as error:
        raise ValueError(f"{folder}: lacks the file {Path(error.filename).name}") from error
    except ValueError as error:
        raise ValueError(f"{folder}: {error}") from error
    if not isinstance(package, ProviderPackage):
        raise ValueError(f"{folder}: lacks an __init__.py with its ProviderPackage as PACKAGE")
    if package.name != name:
        raise ValueError(f"{folder}: __init__.py has the name {package.name!r}, and its folder another")
    return package


for _name in PROVIDER_NAMES:
    try:
        PACKAGES.append(read_folder(_name))
    except ValueError as _error:
        # Settings say it, so that each command ends with the sentence and not with a traceback.
        FOLDER_PROBLEMS.append(str(_error))


def title(name: str) -> str:
    """The full name of a provider for people, the name itself for an unknown one."""
    return next((package.title for package in PACKAGES if package.name == name), name)


def title_of_account(account: str, provider: str) -> str:
    """The full name of a provider, with that of an account or a connection there which is called otherwise."""
    return title(provider) if account == provider else f"{title(provider)} ({account})"


def short_name(name: str) -> str:
    return next((package.short_name for package in PACKAGES if package.name == name), name or "the provider")


def read_provider_settings(
    env: Env, names: Collection[str], *, in_production: bool
) -> tuple[dict[str, ProviderAccess], list[str]]:
    """The access of every connection by its name, in their order, and what is wrong with the settings.

    Those that `USSD_PROVIDERS` lists, else every provider that has a setting. `names` are those of the settings that
    are set, without `USSD_`. A folder that lacks something is wrong with any settings.
    """
    access, kinds, problems = dict[str, ProviderAccess](), dict[str, str](), [*FOLDER_PROBLEMS]
    listed = listed_connections(env)
    if not all(_CONNECTION_NAME.fullmatch(name) for name in listed) or len(set(listed)) < len(listed):
        problems.append("USSD_PROVIDERS: must be different names of 1 to 20 small letters, digits and hyphens")
        return access, problems
    readable = [each.name for each in PACKAGES if each.read_settings]
    connections = listed or [each for each in readable if any(name.startswith(prefix_of(each)) for name in names)]
    for connection in connections:
        reader = SettingsReader(env, connection, _own(connection, names, connections), in_production=in_production)
        if (read := _read_connection(connection, reader)) is not None:
            kinds.setdefault(read.account, read.kind)
            if kinds[read.account] != read.kind:
                reader.refuse("ACCOUNT", f"must not be {read.account}, which is an account at {kinds[read.account]}")
            access[connection] = read
        problems += reader.problems
    return access, problems


def listed_connections(env: Env) -> list[str]:
    """The names in `USSD_PROVIDERS`, none without it."""
    return [name for part in (env.str("PROVIDERS", "") or "").split(",") if (name := part.strip())]


def _own(connection: str, names: Collection[str], connections: Collection[str]) -> set[str]:
    """The names of a connection's settings: each belongs to the longest connection that begins it."""
    prefixes = sorted(map(prefix_of, connections), key=len, reverse=True)
    of_name = {name: next((prefix for prefix in prefixes if name.startswith(prefix)), None) for name in names}
    return {name for name, prefix in of_name.items() if prefix == prefix_of(connection)}


def _read_connection(connection: str, reader: SettingsReader) -> ProviderAccess | None:
    """The access of one connection, None for the sandbox and for a kind that there is not."""
    kind = reader.text("KIND", connection)
    package = next((each for each in PACKAGES if each.name == kind), None)
    if package is None:
        reader.refuse("KIND", f"must be one of {', '.join(PROVIDER_NAMES)}")
    if package is None or package.read_settings is None:
        return None
    account = reader.text("ACCOUNT", connection)
    if not _CONNECTION_NAME.fullmatch(account) or account in {"bank", *PROVIDER_NAMES} - {kind}:
        reader.refuse("ACCOUNT", "must be 1 to 20 small letters, digits and hyphens, and no other provider's name")
    is_draining = reader.choice("DRAINING", "0", "1") == "1"
    access = package.read_settings(reader)
    return replace(
        access, kind=kind, connection=connection, account=account, draining=is_draining, proxy=reader.proxy()
    )


def build_providers(
    accesses: Mapping[str, ProviderAccess],
    now: Callable[[], datetime],
    *,
    ca_file: Path | None,
    is_sandbox: bool,
    callback_url: Callable[[str], str | None] = lambda _: None,
    tokens: SharedTokens | None = None,
    make_transport: Callable[..., Transport] = Transport,
) -> list[Provider]:
    """The adapter of every connection, by its access; where `is_sandbox` also of providers that need none.

    `callback_url` returns the address to which a provider of this kind reports. `tokens` are the access tokens that all
    processes share; None: this process has its own.
    """
    trust = authorities(ca_file)
    built: list[Provider] = []
    packages = {package.name: package for package in PACKAGES}
    for access in accesses.values():
        access = replace(access, shared_tokens=tokens, callback_url=callback_url(access.kind))
        # A slow provider must not take the connections of another, so each has a pool of its own.
        built.append(packages[access.kind].build(access, make_transport(trust=trust, proxy=access.proxy), now))
    if is_sandbox:
        plain = [package for package in PACKAGES if package.read_settings is None]
        built += [package.build(None, Transport(trust=trust), now) for package in plain]
    return built
