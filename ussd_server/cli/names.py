"""Names, days and amounts on the command line, with the nearest name or an example where nothing fits."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, date, datetime
from decimal import Decimal
from difflib import get_close_matches
from getpass import getpass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import click

from ussd_server.cli import services
from ussd_server.cli.commands import show
from ussd_server.context import RequestContext, operator_context
from ussd_server.services.clients.messages import ClientView
from ussd_server.status import Code, ServiceError
from ussd_server.values import KAMPALA, cents_of, moment_of, phone_number

Command = TypeVar("Command", bound=Callable[..., Any])

_MOST_NAMED = 20
_CENTURY = range(2000, 2100)
_BELOW = Decimal(10) ** 13
# As the service itself writes amounts.
_GROUPED = re.compile(r"(?:UGX )?[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]{1,2})?")


class KnownName(click.Choice[str]):
    """One of a few names, in any case."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(list(names), case_sensitive=False)

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        return f"{super().get_invalid_choice_message(value, ctx)}{nearest(str(value), self.choices)}"


class KnownFile(click.Path):
    """A file that exists."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises BadParameter with the nearest name in the same folder."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as refusal:
            folder = Path(value).parent
            if Path(value).exists() or not folder.is_dir():
                raise
            names = [str(folder / path.name) for path in folder.iterdir()]
            raise click.BadParameter(f"{refusal.message}{nearest(str(value), names)}", ctx, param) from None


class Moment(click.DateTime):
    """A day of this century, as the API takes it; with `or_time` any day, or a time, both in UTC."""

    def __init__(self, *, or_time: bool = False) -> None:
        super().__init__(["%Y-%m-%d", *(["%Y-%m-%dT%H:%M:%SZ"] if or_time else [])])
        self._takes_time = or_time

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "TIME" if self._takes_time else "DATE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Return the moment. Raises BadParameter with an example."""
        try:
            # The API shows a time with its offset.
            moment = (self._takes_time and moment_of(str(value))) or super().convert(value, param, ctx)
            if not self._takes_time and moment.year not in _CENTURY:
                raise click.BadParameter("not of this century")
        except click.BadParameter:
            time = " or a time such as 2026-11-30T14:00:00Z" if self._takes_time else ""
            raise click.BadParameter(f"{value!r} must be a day such as 2026-11-30{time}.", ctx, param) from None
        return moment.replace(tzinfo=UTC)


class Days(click.ParamType[tuple[date, date]]):
    """The first and the last of some days of this century: `2026-11-20..2026-11-22`."""

    name = "days"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[date, date]:
        """Return both days. Raises BadParameter with an example."""
        if isinstance(value, tuple):
            return value
        first, _, last = str(value).partition("..")
        try:
            days = date.fromisoformat(first), date.fromisoformat(last)
        except ValueError:
            days = None
        if days is None or not all(day.year in _CENTURY for day in days):
            self.fail(f"{value!r} must be two days such as 2026-11-20..2026-11-20.", param, ctx)
        return days


class Shillings(click.ParamType[int]):
    """Digits with at most two decimals, also as the service writes them (5,000), from `least_cents` on.

    The option's value is in cents.
    """

    name = "shillings"

    def __init__(self, least_cents: int = 1) -> None:
        self._least_cents = least_cents

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Cents of what was typed."""
        if isinstance(value, int):
            return value
        plain = value.removeprefix("UGX ").replace(",", "") if _GROUPED.fullmatch(value) else value
        cents = cents_of(plain, Decimal(self._least_cents) / 100, _BELOW)
        if cents is None:
            least = "0 shillings or more" if self._least_cents == 0 else "more than 0 shillings"
            self.fail(f"{value!r} must be {least}, such as 5000 or 5000.50", param, ctx)
        return cents


class TypedNumber(click.ParamType[str]):
    """A number such as 0772123456 or +256772123456, in the second form."""

    name = "number"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The number in its long form."""
        number = phone_number(value)
        if number is None:
            self.fail(f"{value!r} is not a Ugandan number, such as +256772123456", param, ctx)
        return number


client_option = click.option("--client", required=True, metavar="CLIENT", help="Name or id of the client.")
file_argument = click.argument("file", type=KnownFile())
sample_or_file_argument = click.argument("file", metavar="[FILE]", type=KnownFile(), required=False)
by_option = click.option("--by", required=True, help="Your name.")


def two_people(second: str = "The name of a second person.") -> Callable[[Command], Command]:
    """Make what adds the options `--by` and `--and` to a command, passed as `by` and `second`."""
    return lambda command: by_option(click.option("--and", "second", required=True, help=second)(command))


password_option = click.option(
    "--password-stdin",
    is_flag=True,
    help="Read the password from standard input; otherwise one is made and shown once.",
)


def password_of(password_stdin: bool) -> str:
    """Return the line on standard input with the `password_option`, else a new password.

    A terminal does not show what is typed.
    """
    from ussd_server.security.passwords import new_password  # most commands do not need argon2

    if not password_stdin:
        return new_password()
    return getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\r\n")


def show_with_password(account: Any, line: str, password: str, password_stdin: bool) -> None:
    """Print an account, a dataclass, as its line or its fields; a password that the command made is added."""
    if password_stdin:
        show(account, line)
    else:
        show(asdict(account) | {"password": password}, f"{line}\nPassword: {password}")


def _read_moment(_context: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    """Return a moment, or the beginning of a day in Kampala."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        rule = "must be a day such as 2026-11-30 or a time such as 2026-11-30T14:00:00Z."
        raise click.BadParameter(f"{text!r} {rule}", param=parameter) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=KAMPALA)


def period_options(command: Command) -> Command:
    """Add the options `--from` and `--to`, passed as `from_at` and `to_at`: moments with their offset, or None."""
    first = "The first moment, such as 2026-11-20 or 2026-11-20T08:00:00Z."
    end = "The end, exclusive. A day means its beginning in Kampala."
    command = click.option("--to", "to_at", callback=_read_moment, help=end)(command)
    return click.option("--from", "from_at", callback=_read_moment, help=first)(command)


def client_named(name_or_id: str) -> ClientView:
    """Return the client of this name, in any case, or of this id. Raises ClickException and says what there is."""
    try:
        return services().clients.find(name_or_id, operator_context())
    except ServiceError as refusal:
        if refusal.code is not Code.NOT_FOUND:
            raise
    clients = services().clients.list(operator_context())
    alike = [client for client in clients if client.name.casefold() == name_or_id.strip().casefold()]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise click.ClickException(f"Several clients are called so: {_listed(client.name for client in alike)}.")
    if not clients:
        raise click.ClickException(
            f"There is no client {name_or_id}. There are no clients yet; `ussd-server clients create NAME` makes one."
        )
    raise click.ClickException(_unknown("client", name_or_id, [client.name for client in clients]))


def client_id_of(name_or_id: str | None) -> str | None:
    """Return the id of the client that `client_named` finds; None without a name."""
    return client_named(name_or_id).client_id if name_or_id else None


def context_of(name_or_id: str | None) -> RequestContext:
    """Return the context of the client that `client_named` finds; of all clients without a name."""
    return operator_context(client_id_of(name_or_id))


@contextmanager
def among(what: str, name: str, names: Callable[[], Iterable[str]]) -> Iterator[None]:
    """Name the nearest of the names, or all of them, where the block does not find the `what` with this `name`."""
    try:
        yield
    except ServiceError as refusal:
        if refusal.code.http_status != HTTPStatus.NOT_FOUND:
            raise
        raise click.ClickException(_unknown(what, name, list(names()))) from None


def nearest(name: str, names: Iterable[str]) -> str:
    """Return a sentence that asks whether the name nearest to `name` was meant; empty when none is near."""
    by_folded = {name.casefold(): name for name in names}
    matches = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.5)
    return f" Did you mean {by_folded[matches[0]]}?" if matches else ""


def _unknown(what: str, name: str, names: Sequence[str]) -> str:
    there = f" There are: {_listed(names)}." if names else f" There is no {what} yet."
    return f"There is no {what} {name}.{nearest(name, names) or there}"


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _MOST_NAMED
    return ", ".join(listed[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
