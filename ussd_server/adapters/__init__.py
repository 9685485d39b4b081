"""The outside: one file for each foreign company; foreign names never leave this room."""
