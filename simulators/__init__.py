"""Wire-faithful stand-ins for the money companies: `python -m simulators.mtn` or `.airtel`, `run(app)` in a test."""

from simulators.server import run

__all__ = ["run"]
