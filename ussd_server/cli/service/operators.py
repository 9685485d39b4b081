"""`operators`: the people who run this server and sign in to its console."""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict
from types import MappingProxyType

import click
import segno

from ussd_server.cli import services
from ussd_server.cli.commands import group, show, show_lines
from ussd_server.cli.names import among, password_of, password_option, show_with_password
from ussd_server.context import operator_context
from ussd_server.services.operators.messages import CreateOperator, OperatorView, SecondFactor


@group()
def operators() -> None:
    """People who run this server and sign in to its console."""


@operators.command(example="--email ops@example.org")
@click.option("--email", required=True)
@password_option
def create(email: str, password_stdin: bool) -> None:
    """Make an operator, with a second factor for an authenticator and ten recovery codes."""
    password = password_of(password_stdin)
    factor = services().operators.create(CreateOperator(email, password), operator_context())
    address = f"{services().settings.public_url or ''}/console/operator/sign-in"
    _show_factor(factor, None if password_stdin else password, {"sign_in": address})


@operators.command(name="list")
def list_() -> None:
    """Show operators."""
    operators = services().operators.list(operator_context())
    show_lines(operators, map(_line, operators), "There are no operators.")


@operators.switch(
    disable="Refuse this operator and end all their logins.",
    enable="Let this operator sign in again.",
    example="ops@example.org",
)
@click.argument("email")
def set_active(email: str, is_active: bool) -> None:
    with _among_operators(email):
        operator = services().operators.set_active(email, is_active, operator_context())
    show(operator, _line(operator))


@operators.command(example="ops@example.org")
@click.argument("email")
@password_option
def password(email: str, password_stdin: bool) -> None:
    """Give this operator another password and end all their logins."""
    chosen = password_of(password_stdin)
    with _among_operators(email):
        operator = services().operators.change_password(email, chosen, operator_context())
    show_with_password(operator, _line(operator), chosen, password_stdin)


@operators.command(example="operator@demonstration.example")
@click.argument("email")
def code(email: str) -> None:
    """Print the present code of this operator's second factor, in the sandbox only."""
    with _among_operators(email):
        present = services().operators.present_code(email, operator_context())
    show({"code": present}, present)


@operators.command(example="ops@example.org")
@click.argument("email")
def reset_factor(email: str) -> None:
    """Give this operator a new second factor and recovery codes, and end all their logins."""
    with _among_operators(email):
        factor = services().operators.reset_factor(email, operator_context())
    _show_factor(factor, None)


def _among_operators(email: str) -> AbstractContextManager[None]:
    accounts = services().operators
    return among("operator", email, lambda: (each.email for each in accounts.list(operator_context())))


def _show_factor(factor: SecondFactor, password: str | None, more: Mapping[str, str] = MappingProxyType({})) -> None:
    """Print a new second factor, and the password where it was made here."""
    qr_code = io.StringIO()
    segno.make(factor.uri, micro=False).terminal(out=qr_code, compact=True)
    lines = [
        _line(factor.operator),
        *([f"Sign in at {more['sign_in']}"] if more else []),
        *([f"Password: {password}"] if password else []),
        "Scan this with an authenticator, or enter the secret. It is shown once.",
        qr_code.getvalue().rstrip("\n"),
        f"Secret: {factor.secret}",
        factor.uri,
        "Recovery codes, each for one sign-in without the authenticator:",
        *(f"  {code}" for code in factor.recovery_codes),
    ]
    result = asdict(factor) | dict(more) | ({"password": password} if password else {})
    show(result, "\n".join(lines))


def _line(operator: OperatorView) -> str:
    state = "active  " if operator.is_active else "disabled"
    return f"{operator.operator_id}  {state}  {operator.recovery_codes_left:>2} recovery codes  {operator.email}"
