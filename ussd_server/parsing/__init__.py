"""Reads texts of any sender within bounds: JSON, forms and queries."""
