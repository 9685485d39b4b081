"""Servers of one's own on loopback, for the tests and for the benchmarks: PostgreSQL and Valkey."""
