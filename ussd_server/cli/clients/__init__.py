"""Commands about clients, their users, keys and channels."""
