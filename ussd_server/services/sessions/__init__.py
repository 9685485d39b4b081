"""Sessions of phones: their state, steps, transcripts and the outcomes that they show."""
