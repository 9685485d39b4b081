"""Payments: creation, transfers, refunds and deposits, their status history and explanation."""
