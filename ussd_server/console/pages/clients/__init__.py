"""Pages of clients: people, API keys, webhooks, events and the sign-in."""
