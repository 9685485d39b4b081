"""Simulated worlds, the checker that judges their histories, and `scripts/simulate`."""
