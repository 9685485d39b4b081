"""Payouts: many disbursements at once, from a file or a list, approved by another than their maker.

The files in the order of a payout's life. Draft: `rows.py` reads a file, `drafts.py` validates and keeps its rows,
`digests.py` proves them, `name_match.py` compares names. Approval: `approvers.py` and `approval_rules.py` say who and
how many, `approval.py` what blocks it, `holds.py` holds the money, `withdrawals.py` takes it back. Sending:
`sending.py` is the worker's step, `attempts.py` makes the transactions of rows; what blocks them is one list,
`_blocks` in `services/gates/sending.py`. Once more: `rounds.py`. Shown: `records.py` has views and events,
`payouts.py` all that callers may ask.
"""
