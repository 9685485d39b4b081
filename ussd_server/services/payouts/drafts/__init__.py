"""Drafts: `rows.py` reads a file, `drafts.py` validates and keeps its rows, `name_match.py` compares names."""
