"""Calls made ready as bytes, and the process that sends them."""
