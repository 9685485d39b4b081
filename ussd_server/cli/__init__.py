"""The `ussd-server` command.

It imports the service when a command needs it: the import takes most of a second.
"""

from __future__ import annotations

import gc
import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from ussd_server.cli.commands import Group, command, program, show

if TYPE_CHECKING:
    from pathlib import Path

    from ussd_server.bootstrap import Services
    from ussd_server.settings import Settings

_MODULES = {
    "": ("completion",),
    ".clients.channels": ("channels", "codes"),
    ".clients.clients": ("clients",),
    ".clients.keys": ("keys",),
    ".clients.subscribers": ("find", "subscribers"),
    ".clients.users": ("users",),
    ".clients.webhooks": ("webhooks",),
    ".money.accounts": ("accounts", "fees"),
    ".money.movements": ("movements", "payment-codes"),
    ".money.payouts": ("payouts",),
    ".money.providers": ("callbacks", "providers"),
    ".money.reconcile": ("reconcile",),
    ".money.recover": ("recover",),
    ".money.report": ("day", "report"),
    ".money.settlements": ("settlements",),
    ".money.transactions": ("transactions",),
    ".phone.dial": ("dial",),
    ".phone.menu": ("menu",),
    ".service.check": ("check",),
    ".service.doctor": ("doctor", "mail"),
    ".service.operators": ("operators",),
    ".service.run": ("migrate", "run", "smpp", "worker"),
    ".service.secrets": ("secrets",),
}
_COMMANDS = {name: f"{__name__}{module}" for module, names in _MODULES.items() for name in names}

# Of the settings, those with which a command would reach another service or be refused what the service accepts.
_SETTINGS_OF_COMMANDS = {"USSD_ALLOW_PRIVATE_ADDRESSES", "USSD_DATABASE_URL", "USSD_ENV", "USSD_SECRETS_FILE"}

COMPLETE_VARIABLE = "_USSD_SERVER_COMPLETE"
"""By this variable a shell asks the program what could follow."""


class _Commands(Group):
    """Subcommands, imported on use. A refusal is one sentence and exit code 1."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        with _importing():
            command: click.Command = getattr(importlib.import_module(_COMMANDS[cmd_name]), cmd_name.replace("-", "_"))
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as unknown:
            raise click.NoSuchCommand(unknown.command_name, possibilities=_COMMANDS, ctx=ctx) from None

    def main(self, *args: Any, prog_name: str | None = None, **options: Any) -> Any:
        """Run the command, named in its messages as it can be typed here."""
        options.setdefault("complete_var", COMPLETE_VARIABLE)
        return super().main(*args, prog_name=prog_name or program(), **options)  # type: ignore[call-overload]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        for place, each in enumerate(args, 1):
            # Python reads other bytes as half surrogate pairs, which no database takes.
            if not each.isascii() and any("\ud800" <= letter <= "\udfff" for letter in each):
                raise click.UsageError(f"Argument {place} is not text in UTF-8.", ctx)
        return super().parse_args(ctx, args)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _refusing(args):
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _refusing(ctx.args):
            return super().invoke(ctx)


@contextmanager
def _importing() -> Iterator[None]:
    """Collect no garbage in the block: what imports make stays, and is made a tenth faster when nothing searches it."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@contextmanager
def _refusing(words: Sequence[str]) -> Iterator[None]:
    """Turn errors of the block into refusals; into JSON ones where `--json` is among the words."""
    as_json = "--json" in map(str.lower, words)
    try:
        yield
    except (click.exceptions.Exit, click.Abort):
        raise
    except Exception as error:
        from ussd_server.cli.refusals import print_json, refusal_of

        refusal = refusal_of(error)
        if refusal is None:
            raise
        if as_json:
            print_json(refusal)
            raise click.exceptions.Exit(refusal.exit_code) from None
        raise refusal from None


@click.group(
    cls=_Commands,
    example="run",
    context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": str.lower},
)
@click.version_option(package_name="ussd-server", message="ussd-server %(version)s")
def main() -> None:
    """USSD menus and mobile money behind one HTTPS API."""


def settings_of_service() -> Settings:
    """Read the settings for a command that needs a service which was started or migrated before.

    Without USSD_DATA_DIR the data folder is `var` in this folder, a folder above it or the checkout, and is named on
    standard error, as are settings that the running service does not have; once in each shell. Raises
    ClickException where there is no service.
    """
    from ussd_server.settings import has_data, is_data_dir_given, read_settings

    settings = read_settings(find_data=True)
    if not has_data(settings):
        raise click.ClickException(
            f"There is no service in {settings.data_dir} yet. Start `{program()} run` there, "
            "or set USSD_DATA_DIR to the data folder of a service."
        )
    notes = [] if is_data_dir_given() else [f"Using the service in {settings.data_dir}"]
    different = _differences_from_the_running_service(settings)
    notes += [f"The running service has another setting: {difference}." for difference in different]
    if notes and _is_new_in_this_shell(notes, settings.data_dir):
        click.echo("\n".join(notes), err=True)
    return settings


def _is_new_in_this_shell(notes: Sequence[str], data_dir: Path) -> bool:
    """Return whether the shell was not the last one that read these notes, and remember that it is now."""
    file, read = data_dir / "notes.read", "\n".join([str(os.getsid(0)), *notes])
    with suppress(OSError):
        if file.exists() and file.read_text(encoding="utf-8") == read:
            return False
        file.touch(mode=0o600)
        file.write_text(read, encoding="utf-8")
    return True


def _differences_from_the_running_service(settings: Settings) -> list[str]:
    """Return what commands would do otherwise than the service, in sentences."""
    from ussd_server.server.running import running_processes

    with suppress(PermissionError):
        for process in running_processes(settings)[:1]:
            different = process.differences(settings)
            return [different[name] for name in different if name in _SETTINGS_OF_COMMANDS]
    return []


@contextmanager
def open_services(settings: Settings | None = None) -> Iterator[Services]:
    """Build every service, and close them after the block. Default: with `settings_of_service`."""
    with _importing():
        from ussd_server.bootstrap import build_services
        from ussd_server.database.unit_of_work import close_connections
        from ussd_server.logs import configure_logs

    # A command says in sentences what matters; the terminal of a service shows its warnings, too.
    terminal_level = "ERROR" if settings is None else settings.log_level
    settings = settings or settings_of_service()
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    configure_logs(settings.log_level if settings.log_file else terminal_level, settings.log_file)
    services = build_services(settings)
    try:
        yield services
    finally:
        services.close()
        close_connections()


def services(settings: Settings | None = None) -> Services:
    """Return the services, which the first call in a command opens as `open_services` does, and its end closes.

    Only the first call may give `settings`.
    """
    context = click.get_current_context()
    assert context.obj is None or settings is None
    if context.obj is None:
        context.obj = context.with_resource(open_services(settings))
    opened: Services = context.obj
    return opened


@command(example="bash > ~/.local/share/bash-completion/completions/ussd-server")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script by which SHELL completes commands and options."""
    from click.shell_completion import get_completion_class

    made_for = get_completion_class(shell)
    assert made_for is not None
    script = made_for(context.find_root().command, {}, "ussd-server", COMPLETE_VARIABLE).source()
    show({"shell": shell, "script": script}, script)
