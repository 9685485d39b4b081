"""GSM 7-bit texts, screen budgets, and the built-in sentences of the engine."""
