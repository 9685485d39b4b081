"""Payouts: many disbursements at once, from a file or a list, approved by another than their maker."""
