"""A simulated world: its scheduler and time, its database and processes, its provider and callers, and its faults."""
