"""A stand-in for MTN MoMo: provisioning, tokens, payments, account holders, and one callback or none."""

from simulators.mtn.access import MtnSettings
from simulators.mtn.api import MtnMomo

__all__ = ["MtnMomo", "MtnSettings"]
