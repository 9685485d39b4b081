"""What a team would otherwise build: small programs with the same checks and the same answers."""
