"""Numbered steps from an empty database to today's, run one process at a time."""
