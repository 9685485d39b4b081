"""Operators who decide: names, compared as they look and checked against their accounts, and their reason."""

from __future__ import annotations

import unicodedata

from ussd_server.models.operators import Operator
from ussd_server.status import Code, ServiceError
from ussd_server.values import is_invisible

_LONGEST_NAME = 100
_LONGEST_REASON = 200
_MARKS = " .-'@_+"
# In the demonstration, commands take any names, as in its documents.
_DEMONSTRATION = "@demonstration.example"
_TWO_PEOPLE_REQUIRED = "Two different people must stand by it, with their names"


def folded_name(name: str) -> str:
    """The form of a name that is equal for all names that look the same."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return " ".join("".join(each for each in folded if not is_invisible(each)).split())


def is_same_person(one: str, other: str) -> bool:
    """Whether two names look the same: without regard to case, width, composition, spaces and invisible characters."""
    return folded_name(one) == folded_name(other)


def require_two_names(by: str, second: str) -> tuple[str, str]:
    """Return the names of two different people as they are stored. INVALID_REQUEST for anything else.

    Once operators have accounts, each name must be the e-mail address of an active operator. Before that, a name has 1
    to 100 letters, digits, spaces and `. - ' @ _ +`, and both names use one script, because letters of two scripts may
    look the same.
    """
    names = " ".join(by.split()), " ".join(second.split())
    if not all(0 < len(name) <= _LONGEST_NAME and folded_name(name) for name in names) or is_same_person(*names):
        raise ServiceError(Code.INVALID_REQUEST, _TWO_PEOPLE_REQUIRED)
    if accounts := _accounts():
        return _email_of(names[0], accounts), _email_of(names[1], accounts)
    if len({script for name in names for script in _scripts(name)}) > 1:
        raise ServiceError(Code.INVALID_REQUEST, "Write both names in the letters of one script")
    return names


def require_two_people(by: str, second: str, reason: str) -> tuple[str, str]:
    """Two different people who decide, as `require_two_names` returns them. INVALID_REQUEST without a reason, too."""
    names = require_two_names(by, second)
    require_reason(reason)
    return names


def require_reason(reason: str) -> None:
    """Raise INVALID_REQUEST unless a reason has 1 to 200 characters."""
    if not 0 < len(reason.strip()) <= _LONGEST_REASON:
        raise ServiceError(Code.INVALID_REQUEST, "A reason is needed, of at most 200 characters")


def require_name(by: str) -> str:
    """Return the name of one operator as it is stored. INVALID_REQUEST for one that `require_two_names` refuses."""
    name = " ".join(by.split())
    if not 0 < len(name) <= _LONGEST_NAME or not folded_name(name):
        raise ServiceError(Code.INVALID_REQUEST, "The name of the operator has 1 to 100 characters")
    if accounts := _accounts():
        return _email_of(name, accounts)
    _scripts(name)
    return name


def _accounts() -> dict[str, Operator]:
    """The accounts by folded e-mail address; none while there are those of the demonstration only."""
    accounts = {folded_name(row.email): row for row in Operator.select(Operator.email, Operator.is_active)}
    return accounts if any(not email.endswith(_DEMONSTRATION) for email in accounts) else {}


def _email_of(name: str, accounts: dict[str, Operator]) -> str:
    account = accounts.get(folded_name(name))
    if account is None or not account.is_active:
        raise ServiceError(Code.INVALID_REQUEST, "Each name must be the e-mail address of an active operator")
    return str(account.email)


def _scripts(name: str) -> set[str]:
    """The scripts of a name's letters. INVALID_REQUEST for a character that no name has."""
    letters = [each for each in unicodedata.normalize("NFKC", name) if each not in _MARKS]
    if not all(each.isalnum() for each in letters):
        raise ServiceError(Code.INVALID_REQUEST, "A name is of letters, digits, spaces and . - ' @ _ +")
    # The name of a letter begins with that of its script: LATIN SMALL LETTER A.
    return {unicodedata.name(each, "?").split()[0] for each in letters if each.isalpha()}
