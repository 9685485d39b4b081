"""All tests of the service."""
