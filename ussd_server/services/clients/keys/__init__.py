"""What a key may do, and the whole record of a key."""
