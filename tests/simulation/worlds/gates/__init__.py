"""Incidents in which features meet: money reported twice, revoked senders, settlements with the bank, closed days."""
