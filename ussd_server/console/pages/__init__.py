"""One file for each group of pages, in folders by area. Importing this package registers all of them."""

from importlib import import_module
from pkgutil import walk_packages

from ussd_server.console.blueprint import console

for _module in walk_packages(__path__, f"{__name__}."):
    import_module(_module.name)

__all__ = ["console"]
