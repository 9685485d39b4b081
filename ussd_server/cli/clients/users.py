"""`users`: the people who sign in for clients."""

from __future__ import annotations

from contextlib import AbstractContextManager

import click

from ussd_server.cli import services
from ussd_server.cli.commands import group, show, show_lines
from ussd_server.cli.names import (
    KnownName,
    among,
    client_id_of,
    client_named,
    client_option,
    password_of,
    password_option,
    show_with_password,
)
from ussd_server.context import operator_context
from ussd_server.services.clients.messages import CreateUser, UserView
from ussd_server.services.roles import PERMISSIONS


@group()
def users() -> None:
    """People who sign in for clients."""


@users.command(example="--client acme --email owner@acme.example --role owner")
@client_option
@click.option("--email", required=True)
@click.option("--role", required=True, type=KnownName(PERMISSIONS))
@password_option
def create(client: str, email: str, role: str, password_stdin: bool) -> None:
    """Make a person."""
    password = password_of(password_stdin)
    request = CreateUser(client_named(client).client_id, email, role, password)
    user = services().clients.create_user(request, operator_context())
    show_with_password(user, _line(user), password, password_stdin)


@users.command(name="list", example="--client acme")
@click.option("--client", help="Name or id of the client; without it, all people.")
def list_(client: str | None) -> None:
    """Show people."""
    client_id = client_id_of(client)
    users = services().clients.list_users(client_id, operator_context())
    show_lines(users, map(_line, users), "There are no users.")


@users.switch(
    disable="Refuse this person and end all their logins.",
    enable="Let this person sign in again.",
    example="owner@acme.example",
)
@click.argument("email")
def set_active(email: str, is_active: bool) -> None:
    with _among_users(email):
        user = services().clients.set_user_active(email, is_active, operator_context())
    show(user, _line(user))


@users.command(example="owner@acme.example")
@click.argument("email")
@password_option
def password(email: str, password_stdin: bool) -> None:
    """Give this person another password and end all their logins."""
    chosen = password_of(password_stdin)
    with _among_users(email):
        user = services().clients.change_password(email, chosen, operator_context())
    show_with_password(user, _line(user), chosen, password_stdin)


@users.command(example="owner@acme.example")
@click.argument("email")
def confirm(email: str) -> None:
    """Confirm that this is a person of their own, who may approve what the person who invited them makes.

    Until then, or until a colleague who may approve payouts confirms it in the console, the two count as one person.
    """
    with _among_users(email):
        user = services().clients.confirm_user(email, operator_context())
    show(user, f"{_line(user)}\nThe person counts as a person of their own.")


@users.command(example="owner@acme.example")
@click.argument("email")
def remove_factor(email: str) -> None:
    """Remove this person's second factor, which they lost, and end all their logins."""
    with _among_users(email):
        services().second_factors.remove_by_operator(email, operator_context())
        user = services().clients.find_user(email, operator_context())
    show(user, f"{_line(user)}\nThe second factor is removed.")


def _among_users(email: str) -> AbstractContextManager[None]:
    people = services().clients
    return among("user", email, lambda: (user.email for user in people.list_users(None, operator_context())))


def _line(user: UserView) -> str:
    return f"{user.user_id}  {'active  ' if user.is_active else 'disabled'}  {user.role:<9}  {user.email}"
