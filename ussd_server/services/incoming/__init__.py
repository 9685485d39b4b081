"""Money that payers send by themselves: payment codes, what providers report, and payments that are held."""
