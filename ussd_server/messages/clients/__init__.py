"""Messages about clients: API keys, people and logins."""
