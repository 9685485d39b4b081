"""Shared by providers over HTTP: connection, breaker, access tokens, and the reading of replies."""
