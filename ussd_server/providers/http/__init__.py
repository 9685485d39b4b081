"""What providers that are called over HTTP share: connection, breaker, access tokens, and how replies are read."""
