"""The sandbox provider."""
