"""Providers move money for us. Each folder is one provider; its field names and codes stay inside it.

To add a provider, add a folder with its name, whose `__init__.py` holds its `ProviderPackage` as `PACKAGE`. The API
document, menus, console and commands read the names of the folders.
"""
