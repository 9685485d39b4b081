"""A stand-in for MTN MoMo: provisioning, tokens, payments, account holders, and one callback or none."""

from simulators.mtn.company import MtnMomo, MtnSettings

__all__ = ["MtnMomo", "MtnSettings"]
