"""One file for each group of pages. Importing this package registers all of them."""

from ussd_server.console.blueprint import console
from ussd_server.console.pages import api_keys, audit, operators, overview, proposals, sign_in, transactions

__all__ = ["api_keys", "audit", "console", "operators", "overview", "proposals", "sign_in", "transactions"]
