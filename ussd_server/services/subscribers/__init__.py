"""Everything about one phone number: its history, and what is held about a person."""
