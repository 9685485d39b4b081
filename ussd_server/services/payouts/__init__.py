"""Payouts: many disbursements at once, from a file or a list, approved by another than their maker.

In the order of a payout's life: `drafts/`, `approval/`, `sending.py` (the worker's step), `rounds.py` (rows once more).
`holds.py` holds the money of the rows that wait, `attempts.py` makes their transactions; what blocks these is one list,
`_blocks` in `services/gates/sending.py`. `records.py` has views and events, `payouts.py` all that callers may ask.
"""
