"""Providers move money for us. Each folder is one provider; its field names and codes stay inside it.

To add a provider, add a folder whose `__init__.py` holds a `ProviderPackage`, and name it in `registry.PACKAGES`.
"""
