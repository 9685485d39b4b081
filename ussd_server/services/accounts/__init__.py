"""The money that clients keep here: the ledger, balances and fees."""
