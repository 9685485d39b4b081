"""Master keys, encryption, tokens and passwords."""
