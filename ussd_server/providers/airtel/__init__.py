"""Airtel Money."""
