"""Sessions of phones: where each stands, its steps, its transcript and the outcome that it shows."""
