"""GSM 7-bit texts, screens that fit, and the sentences that the engine says by itself."""
