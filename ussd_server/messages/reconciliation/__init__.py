"""Messages about the statements of providers, and their differences from our transactions."""
