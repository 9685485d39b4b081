"""The providers that this version has, by their folders."""

from __future__ import annotations

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
from ussd_server.providers.settings import SettingsReader

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


def short_name(name: str) -> str:
    return next((package.short_name for package in PACKAGES if package.name == name), name or "the provider")


def read_provider_settings(
    env: Env, names: Collection[str], *, in_production: bool
) -> tuple[dict[str, ProviderAccess], list[str]]:
    """The access of every provider that has a setting, by name, and what is wrong with the settings.

    `names` are those of the settings that are set, without `USSD_`. A folder that lacks something is wrong with any
    settings.
    """
    access, problems = dict[str, ProviderAccess](), [*FOLDER_PROBLEMS]
    for package in PACKAGES:
        if package.read_settings and any(name.startswith(f"{package.name.upper()}_") for name in names):
            reader = SettingsReader(env, package.name, names, in_production=in_production)
            access[package.name] = package.read_settings(reader)
            problems += reader.problems
    return access, problems


def build_providers(
    accesses: Mapping[str, ProviderAccess],
    now: Callable[[], datetime],
    *,
    ca_file: Path | None,
    is_sandbox: bool,
    callback_url: Callable[[str], str | None] = lambda _: None,
    tokens: SharedTokens | None = None,
) -> list[Provider]:
    """The adapter of every provider that is switched on, by its access; in a sandbox also those that need none.

    `callback_url` returns the address to which a provider of this name reports. `tokens` are the access tokens that all
    processes share; None: this process has its own.
    """
    trust = authorities(ca_file)
    providers = []
    for package in PACKAGES:
        access = accesses.get(package.name)
        if access is not None:
            access = replace(access, shared_tokens=tokens, callback_url=callback_url(package.name))
        if access is not None or (package.read_settings is None and is_sandbox):
            # A slow provider must not take the connections of another, so each has a pool of its own.
            providers.append(package.build(access, Transport(trust=trust), now))
    return providers
