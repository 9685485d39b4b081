"""Commands that run, check and repair the service."""
