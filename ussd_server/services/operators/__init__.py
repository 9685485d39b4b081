"""Operators: their accounts, second factors, logins and decisions that take two of them."""
