"""Reconciliation: compares the statements of providers with our transactions."""
