"""Sessions of phones: their state, steps, transcripts, and the outcomes of payments that they show."""
