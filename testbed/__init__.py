"""Starts PostgreSQL and Valkey on loopback for tests and benchmarks."""
