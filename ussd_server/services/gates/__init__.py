"""The gates that money passes: one where it arrives, one where it leaves."""
