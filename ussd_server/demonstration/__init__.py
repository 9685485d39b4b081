"""The demonstration of a sandbox: a client, its people and its menu, and a day of example data."""
