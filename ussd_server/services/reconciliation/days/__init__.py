"""Days of providers: what statements cover, their lines by day, and the bridge from our sum to theirs."""
