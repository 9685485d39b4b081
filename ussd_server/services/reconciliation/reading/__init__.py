"""A file of a provider is read: its table, its conventions, its lines."""
