"""A stand-in for MTN MoMo: provisioning, tokens, payments, account holders, and one callback or none."""

from simulators.mtn.api import MtnMomo
from simulators.mtn.settings import MtnSettings

__all__ = ["MtnMomo", "MtnSettings"]
