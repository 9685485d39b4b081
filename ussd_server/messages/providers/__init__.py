"""Messages about providers, and those that they receive and return."""
