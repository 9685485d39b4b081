"""Companies that move money for us, one file each; their field names never leave it."""
