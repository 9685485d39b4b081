"""Approval: `approvers.py` and `rules.py` say who and how many, `approval.py` what blocks it, `withdrawals.py` ends it.

`digests.py` proves that rows, people, approvals and rules are what they were.
"""
