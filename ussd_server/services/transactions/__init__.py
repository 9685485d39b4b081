"""Payments: creation, settlement, refunds, review, the ledger and fees."""
