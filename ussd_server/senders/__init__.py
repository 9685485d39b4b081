"""Senders of messages (SMS) to phones: one adapter for each."""
