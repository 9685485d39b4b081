"""Payments: creation, settlement, refunds and review."""
