"""The contract of the services: frozen dataclasses in, frozen dataclasses out, inner units only."""
