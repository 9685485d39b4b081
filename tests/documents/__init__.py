"""Writes docs/API.md: sends the requests of a scenario over HTTP and records the replies."""
