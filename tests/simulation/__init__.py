"""A simulated world: the real services and their real SQL under one scheduler, with a seed."""
