"""Messages about callbacks of providers, and reviews by operators."""
