"""Incidents in which features meet: money told twice, revoked senders, settlements with the bank, closed days."""
