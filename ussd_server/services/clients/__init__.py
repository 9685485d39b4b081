"""Clients: authentication, API keys, users and logins."""
